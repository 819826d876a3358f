package meta

import (
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// leadOf makes our lead of Graph's. The form's questions say which standard field an
// answer is: the names of the answers are the form's own, in any language. Where the
// form could not be read or calls a question its own, Meta's usual names are taken.
func leadOf(s leadform.Source, g capi.Lead, form capi.Form) ledger.Lead {
	l := ledger.Lead{
		Workspace: s.Workspace, Source: s.Name, Kind: Name, Platform: "meta", LeadID: g.ID, CreatedAt: g.Created,
		History: isHistory(g.Created, s),
		Origin: ledger.Origin{
			FormID: firstOf(g.FormID, form.ID), FormName: leadform.Clean(form.Name),
			AdID: realID(g.AdID), AdName: leadform.Clean(g.AdName), AdSetID: realID(g.AdSetID), AdSetName: leadform.Clean(g.AdSetName),
			CampaignID: realID(g.CampaignID), CampaignName: leadform.Clean(g.CampaignName),
			Channel: leadform.Clean(g.Platform), Organic: g.Organic,
		},
	}
	questions := make(map[string]capi.FormQuestion, len(form.Questions))
	for _, q := range form.Questions {
		questions[leadform.Clean(q.Key)] = q
	}
	for _, f := range g.Fields {
		q := questions[leadform.Clean(f.Name)]
		leadform.Assign(&l, leadform.MetaType(q.Type), ledger.FormAnswer{Question: f.Name, Label: q.Label, Values: f.Values})
		for _, v := range f.Values {
			l.Test = l.Test || leadform.IsDummy(v)
			leadform.SetClick(&l, f.Name, v) // of a form's tracking parameters
		}
	}
	for _, f := range g.Fields { // only what no question's type has set
		leadform.Set(&l, leadform.MetaKey(f.Name), f.Values...)
	}
	boxes(&l, g.Disclaimers, strings.TrimSpace(s.Options.Text("consent_box")))
	for _, x := range []struct{ name, value string }{
		{"partner_name", g.PartnerName},
		{"home_listing", g.HomeListing},
		{"retailer_item_id", g.RetailerItemID},
		{"vehicle", g.Vehicle},
		{"post", g.Post},
	} {
		leadform.Assign(&l, leadform.Custom, ledger.FormAnswer{Question: x.name, Values: []string{x.value}})
	}
	leadform.Complete(&l)
	return l
}

// boxes keeps the tick boxes of the form's disclaimer; the one that the source names
// decides about consent.
func boxes(l *ledger.Lead, list []capi.Disclaimer, decides string) {
	for _, d := range list {
		value := "false"
		if d.Checked {
			value = "true"
		}
		leadform.Assign(l, leadform.Custom, ledger.FormAnswer{Question: d.Key, Values: []string{value}, Consent: true})
		switch {
		case decides == "" || d.Key != decides:
		case d.Checked:
			l.Consent = ledger.ConsentGranted
		default:
			l.Consent = ledger.ConsentDenied
		}
	}
}

// realID: 0 stands for "no ad".
func realID(id string) string {
	if !isID(leadform.Ident(id)) {
		return ""
	}
	return id
}
