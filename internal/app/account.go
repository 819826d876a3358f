package app

import (
	"context"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/message"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// marksWanted tells whether a message carries links by which the lead is marked: as its
// option says, else wherever a rule is for a mark.
func marksWanted(ws *config.Workspace, c *config.CRM) bool {
	switch c.Kind {
	case message.Email, message.Slack, message.Telegram:
	default:
		return false
	}
	if c.Options.Has(message.Marks) {
		return c.Options.Is(message.Marks)
	}
	return ledger.WantsMark(ws.Rules)
}

// crmAccount puts together what a CRM is reached with; options that the CRM has
// renewed go before those of the settings. Deliveries and the doctor both come by
// here, so that a refresh token is not used up twice.
func (a *App) crmAccount(ctx context.Context, ws *config.Workspace, c *config.CRM) crm.Account {
	options := c.Options
	if !options.Has("timezone") && ws.Timezone != nil {
		options = options.With("timezone", secret.New(ws.Timezone.String()))
	}
	account := crm.Account{ID: c.ID, Workspace: ws.ID, Kind: c.Kind, Name: c.Name, Country: ws.Country, Currency: ws.Currency, Options: options}
	account.Marks = marksWanted(ws, c)
	if account.Marks && a.o.File.PublicURL != "" {
		account.MarkURL = func(lead ledger.ID) string {
			return a.o.File.PublicURL + "/m/" + admin.MarkToken(ws.Ring, ws.ID, c.ID, lead, a.o.Clock.Now())
		}
	}
	renewed, err := a.store.Credentials(ctx, ws.ID, c.Name)
	if err != nil {
		a.log.Error("renewed options of a CRM could not be read", "crm", c.Name, "error", err)
	}
	for _, r := range renewed {
		place := secret.Place("credential/"+c.Name+"/"+r.Name, ws.ID)
		key, err := ws.Ring.Unwrap(place, r.Wrapped)
		if err != nil {
			continue
		}
		if plain, err := secret.Open(key, place, r.Sealed); err == nil {
			account.Options = account.Options.With(r.Name, secret.New(string(plain)))
		}
	}
	account.SaveOption = func(ctx context.Context, name string, value secret.Secret) error {
		place := secret.Place("credential/"+c.Name+"/"+name, ws.ID)
		wrapped, key := ws.Ring.Wrap(place)
		return a.store.SaveCredential(ctx, ws.ID, c.Name, store.Credential{Name: name, Wrapped: wrapped, Sealed: secret.Seal(key, place, []byte(value.Reveal()))})
	}
	return account
}
