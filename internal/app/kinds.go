package app

import (
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/gohighlevel"
	"github.com/capiloop/capiloop/internal/crm/hubspot"
	"github.com/capiloop/capiloop/internal/crm/kommo"
	"github.com/capiloop/capiloop/internal/crm/message"
	"github.com/capiloop/capiloop/internal/crm/pipedrive"
	"github.com/capiloop/capiloop/internal/crm/webhook"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/google"
	"github.com/capiloop/capiloop/internal/leadform/linkedin"
	metaleads "github.com/capiloop/capiloop/internal/leadform/meta"
	"github.com/capiloop/capiloop/internal/leadform/tiktok"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Kinds are the registries: a further lead source or CRM is one more line in one of
// these two functions.
type Kinds struct {
	Sources map[string]leadform.Kind
	CRMs    map[string]crm.CRM
}

// NewKinds returns the kinds that this build knows.
func NewKinds(graph config.Graph, clock ledger.Clock) *Kinds {
	return &Kinds{Sources: sourceKinds(graph, clock), CRMs: crmKinds()}
}

func sourceKinds(graph config.Graph, clock ledger.Clock) map[string]leadform.Kind {
	return map[string]leadform.Kind{
		metaleads.Name: metaleads.New(metaleads.Config{URL: graph.URL, Version: graph.Version, Now: clock.Now}),
		google.Name:    google.Kind{},
		tiktok.Name:    tiktok.Kind{},
		linkedin.Name:  linkedin.New(linkedin.Config{Now: clock.Now}),
		website.Name:   website.Kind{},
	}
}

func crmKinds() map[string]crm.CRM {
	return map[string]crm.CRM{
		"webhook":        webhook.New(),
		"hubspot":        hubspot.New(),
		"pipedrive":      pipedrive.New(),
		gohighlevel.Kind: gohighlevel.New(),
		kommo.Kind:       kommo.New(),
		message.Email:    message.NewEmail(),
		message.Slack:    message.NewSlack(),
		message.Telegram: message.NewTelegram(),
	}
}

// check looks over the sources and CRMs of a file, which config does not know.
func (k *Kinds) check(f *config.File) error {
	sources, crms := config.Kinds{}, config.Kinds{}
	for name, kind := range k.Sources {
		sources[name] = config.Settings{}
		for _, o := range kind.Options() {
			sources[name] = append(sources[name], config.Option{
				Name: o.Name, Form: formOf(int(o.Type), int(leadform.List), int(leadform.Map)), Required: o.Required, Help: o.Help,
				OneOf: o.OneOf, Keys: o.Keys, Needs: o.Needs, Key: o.Key,
			})
		}
	}
	for name, kind := range k.CRMs {
		crms[name] = config.Settings{}
		for _, o := range kind.Options() {
			crms[name] = append(crms[name], config.Option{Name: o.Name, Form: formOf(int(o.Type), int(crm.List), int(crm.Map)), Required: o.Required, Help: o.Help})
		}
	}
	return f.CheckOptions(sources, crms)
}

func formOf(typ, list, table int) config.Form {
	switch typ {
	case list:
		return config.List
	case table:
		return config.Map
	}
	return config.Text
}
