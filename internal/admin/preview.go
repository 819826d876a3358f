package admin

import (
	"context"
	"net/url"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Preview is a request that a CRM would get for an example lead.
type Preview struct {
	CRM    string `json:"crm"`
	Kind   string `json:"kind"`
	Method string `json:"method"`
	URL    string `json:"url"`
	Body   string `json:"body"`
}

// PreviewLead returns what each CRM of a workspace would be sent for an example lead,
// so that a mapping can be read before a person's data goes by it. Nothing is sent.
func (a *Admin) PreviewLead(ctx context.Context, by Actor, ws string) ([]Preview, error) {
	if err := allow(by, Operate, "look at what a CRM would be sent"); err != nil {
		return nil, err
	}
	w, err := a.workspace(ws)
	if err != nil {
		return nil, err
	}
	lead := exampleLead(w, a.c.Clock.Now())
	list := []Preview{}
	for _, c := range w.CRMs {
		kind := a.c.CRMs[c.Kind]
		if kind == nil {
			continue
		}
		for _, call := range kind.Preview(a.c.Account(ctx, w, c), lead) {
			list = append(list, Preview{CRM: c.Name, Kind: c.Kind, Method: call.Method, URL: call.URL, Body: string(call.Body)})
		}
	}
	return list, nil
}

// exampleLead has every field, each with a value that says which it is.
func exampleLead(w *config.Workspace, now time.Time) *ledger.Lead {
	return &ledger.Lead{
		ID: ledger.IDAt(now), Workspace: w.ID, Source: "example", Kind: "meta_leads", Platform: "meta", LeadID: "987650000000000",
		Origin: ledger.Origin{
			FormID: "111", FormName: "Example form", AdID: "222", AdName: "Example ad", AdSetID: "333", AdSetName: "Example ad set",
			CampaignID: "444", CampaignName: "Example campaign", Channel: "ig",
		},
		Clicks: ledger.Clicks{
			FBC: "fb.1.1790000000000.ExampleClick", FBP: "fb.1.1790000000000.1234567890", FBClid: "ExampleClick", GClid: "ExampleGclid",
			GBraid: "ExampleGbraid", WBraid: "ExampleWbraid", TTClid: "ExampleTtclid", LiFatID: "ExampleLiFatId", CTWAClid: "ExampleCtwaClid", MSClkid: "ExampleMsclkid",
		},
		PageURL: "https://example.com/form", Consent: ledger.ConsentGranted, CreatedAt: now,
		Contact: ledger.Contact{
			FullName: "Jane Example", FirstName: "Jane", LastName: "Example", Email: "jane@example.com", Phone: "+16502530000",
			WorkEmail: "jane@work.example.com", WorkPhone: "+16502530001", Street: "1 Example Street", City: "Example City", State: "CA", Postcode: "94000",
			Country: "US", Birthday: "1990-05-17", Gender: "f", Company: "Example Ltd", JobTitle: "Director",
		},
		Answers: []ledger.FormAnswer{{Question: "which_course", Label: "Which course?", Values: []string{"Category B"}}},
	}
}

// PreviewLead is LeadActions.PreviewLead at the server.
func (c *Client) PreviewLead(ctx context.Context, by Actor, ws string) ([]Preview, error) {
	var list []Preview
	err := c.get(ctx, by, "/preview", ws, url.Values{}, &list)
	return list, err
}
