package linkedin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
)

// Check looks whether the settings can work and whether the owner's leads can be read.
func (k *Kind) Check(ctx context.Context, s leadform.Source) []leadform.Check {
	settings := leadform.Check{Name: "settings", OK: true, Sentence: "The settings can work."}
	a, err := k.api(s)
	if err == nil && s.Options.Secret("client_secret").Reveal() == "" {
		err = errors.New("client_secret is missing: webhooks cannot be verified")
	}
	if err != nil {
		settings.OK, settings.Sentence = false, "The settings cannot work: "+err.Error()+"."
		settings.NextStep = "Mend the source's entry in the configuration."
		return []leadform.Check{settings}
	}
	access := leadform.Check{Name: "lead access"}
	if firstOf(s.Options.Text("owner")) == "" {
		access.Warning, access.Sentence = true, "Without an owner it cannot be tried whether leads can be read, and missed webhooks are not caught up."
		access.NextStep = "Put in owner: urn:li:sponsoredAccount:N or urn:li:organization:N."
		return []leadform.Check{settings, access}
	}
	now := k.config.Now()
	page, err := a.list(ctx, s, now.Add(-lookBack+time.Hour), now, 0, 1)
	if err == nil {
		access.OK, access.Sentence = true, fmt.Sprintf("The owner's leads can be read: %d in the last year.", page.Paging.Total)
		return []leadform.Check{settings, access}
	}
	access.Sentence, access.NextStep = "Leads cannot be read: "+err.Error()+".", "Try again in a few minutes."
	var f *fault
	switch {
	case !errors.As(err, &f):
		access.NextStep = "Mend the source's entry in the configuration."
	case f.status == http.StatusUnauthorized:
		access.NextStep = "Generate a new token: LinkedIn's end after 60 days."
	case f.status == http.StatusForbidden:
		access.NextStep = "The token needs r_marketing_leadgen_automation, and its member a role at the owner that may read leads."
	case f.status == http.StatusUpgradeRequired || f.status == http.StatusBadRequest:
		access.NextStep = "Put in a newer version (LinkedIn-Version, YYYYMM): LinkedIn keeps each for a year."
	}
	return []leadform.Check{settings, access}
}
