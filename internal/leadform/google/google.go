// Package google reads the webhook of Google Ads' lead form assets.
//
// Google signs nothing: the key that the advertiser typed beside the address stands in
// the body and is all there is to tell its requests from anybody's. Takes the request,
// gives one lead; what Google is answered, the advertiser reads when testing.
package google

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// Name is the kind's name in the configuration.
const Name = "google_leads"

// testPrefix begins the lead ids of what "Send test data" sends.
const testPrefix = "TeSter-123-"

// maxID is how many bytes an id may have; it is kept where it can be read and looked
// up. The lead ids of Performance Max have some 190.
const maxID = 512

// Kind is the lead form of Google Ads. The zero value is ready.
type Kind struct{}

var _ leadform.Kind = Kind{}

// Options lists the settings.
func (Kind) Options() []leadform.Option {
	return []leadform.Option{
		{Name: "key", Type: leadform.SecretText, Required: true, Help: "the key typed into the lead form's webhook settings, beside its address"},
	}
}

// payload is what Google posts. Keys are read in any case, for Google's own samples
// write Google_key too.
type payload struct {
	Key text `json:"google_key"`

	LeadID     text            `json:"lead_id"`
	Columns    json.RawMessage `json:"user_column_data"`
	FormID     text            `json:"form_id"`
	CampaignID text            `json:"campaign_id"`
	AdGroupID  text            `json:"adgroup_id"`
	CreativeID text            `json:"creative_id"`
	AssetGroup text            `json:"asset_group_id"` // stands for the ad group in Performance Max
	GClid      text            `json:"gcl_id"`
	IsTest     text            `json:"is_test"`
	Submitted  text            `json:"lead_submit_time"`
}

type column struct {
	ID    text `json:"column_id"`
	Name  text `json:"column_name"`
	Value text `json:"string_value"`
}

// Receive checks the key and reads the lead. Google takes a 4xx for good and shows its
// message to who tests the form; it repeats after a 5xx.
func (Kind) Receive(r leadform.Request, s leadform.Source, now time.Time) leadform.Received {
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "Google Ads posts leads to this address; it answers nothing else")
	}
	var p payload
	if json.Unmarshal(r.Body, &p) != nil {
		return refuse(http.StatusBadRequest, "the body is not a JSON object as Google Ads sends it")
	}
	key := s.Options.Secret("key")
	if key.IsZero() || !key.Equal(secret.New(strings.TrimSpace(string(p.Key)))) {
		return refuse(http.StatusForbidden, "the key is wrong: the one in the lead form's webhook settings must be the one of this source")
	}
	if problem := p.clean(); problem != "" {
		return refuse(http.StatusBadRequest, problem)
	}
	columns := readColumns(p.Columns)
	if p.LeadID == "" && len(columns) == 0 {
		return refuse(http.StatusBadRequest, "there is no lead in the body: neither lead_id nor user_column_data")
	}
	return leadform.Received{
		Leads:  []ledger.Lead{lead(&p, columns, r.Body, s, now)},
		Answer: leadform.Answer{Status: http.StatusOK, ContentType: "application/json", Body: []byte("{}")},
		Busy:   http.StatusServiceUnavailable,
	}
}

// clean takes out of the ids what no database takes. A problem names the one that is
// longer than any id.
func (p *payload) clean() (problem string) {
	for _, id := range []struct {
		name string
		text *text
	}{
		{"lead_id", &p.LeadID},
		{"form_id", &p.FormID},
		{"campaign_id", &p.CampaignID},
		{"adgroup_id", &p.AdGroupID},
		{"creative_id", &p.CreativeID},
		{"asset_group_id", &p.AssetGroup},
		{"gcl_id", &p.GClid},
	} {
		*id.text = text(leadform.Clean(string(*id.text)))
		if n := len(*id.text); n > maxID {
			return fmt.Sprintf("%s is %d bytes long, at most %d are taken", id.name, n, maxID)
		}
	}
	return ""
}

func lead(p *payload, columns []column, body []byte, s leadform.Source, now time.Time) ledger.Lead {
	l := ledger.Lead{
		Workspace: s.Workspace, Source: s.Name, Kind: Name, Platform: "google",
		LeadID: string(p.LeadID),
		Origin: ledger.Origin{
			FormID: p.FormID.id(), CampaignID: p.CampaignID.id(), AdSetID: p.AdGroupID.id(), AdID: p.CreativeID.id(),
		},
		Clicks:    ledger.Clicks{GClid: string(p.GClid)},
		Test:      p.IsTest == "true" || p.IsTest == "1" || strings.HasPrefix(string(p.LeadID), testPrefix),
		CreatedAt: now,
	}
	if l.Origin.AdSetID == "" {
		l.Origin.AdSetID = p.AssetGroup.id()
	}
	if l.LeadID == "" { // Google always sends one; without it a repeat is known by its body
		sum := sha256.Sum256(body)
		l.DedupeKey = hex.EncodeToString(sum[:])
	}
	if seconds, given, problem := capi.NormaliseTime(string(p.Submitted), now); given && problem == nil {
		l.CreatedAt = time.Unix(seconds, 0).UTC()
	}
	l.History = l.CreatedAt.Before(s.CreatedAt.Truncate(time.Second))
	for _, c := range columns {
		leadform.Assign(&l, leadform.GoogleColumn(string(c.ID)),
			ledger.FormAnswer{Question: string(c.ID), Label: string(c.Name), Values: []string{string(c.Value)}})
	}
	leadform.Complete(&l)
	return l
}

// readColumns reads the answers; one that is no answer does not take the others down.
func readColumns(raw json.RawMessage) []column {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	columns := make([]column, 0, len(items))
	for _, item := range items {
		var c column
		if json.Unmarshal(item, &c) != nil || c.Value == "" {
			continue
		}
		if c.ID == "" {
			c.ID = c.Name
		}
		if c.ID != "" {
			columns = append(columns, c)
		}
	}
	return columns
}

func refuse(status int, message string) leadform.Received {
	body, err := json.Marshal(map[string]string{"message": message})
	if err != nil { // texts of our own always encode
		body = []byte("{}")
	}
	answer := leadform.Answer{Status: status, ContentType: "application/json", Body: body}
	if status == http.StatusMethodNotAllowed {
		answer.Headers = http.Header{"Allow": {http.MethodPost}}
	}
	return leadform.Received{Answer: answer}
}

// text is a JSON text, or a number with all its digits: Google sends ids as numbers
// beyond what a float holds. What is neither reads as nothing.
type text string

// UnmarshalJSON never fails, so that one odd field does not lose a lead.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*t = text(strings.TrimSpace(s))
	case '{', '[', 'n':
	default:
		*t = text(raw)
	}
	return nil
}

// id returns the text of an id; 0 stands for none.
func (t text) id() string {
	if t == "0" {
		return ""
	}
	return string(t)
}
