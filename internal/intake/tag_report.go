package intake

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/capiloop/capiloop/capi"
)

// tagVersion is that of the reports that are read here.
const tagVersion = 1

// report is what the tag sends at once. The items are read one by one, so that one that
// is broken stops no other.
type report struct {
	Version   int               `json:"v"`
	Site      string            `json:"site"`
	Sent      float64           `json:"sent"` // the browser's clock, in ms
	FBC       string            `json:"fbc"`  // its cookies now
	FBP       string            `json:"fbp"`
	Consent   said              `json:"consent"` // now
	Events    []json.RawMessage `json:"events"`
	Sightings []json.RawMessage `json:"sightings"`
}

// said is what the tag knows of the visitor's decision.
type said struct {
	Ads string `json:"ads"` // granted, denied or ""
	By  string `json:"by"`  // site, gcm, tcf, none, plain
	GPC bool   `json:"gpc"`
}

// tagEvent is one event of a report.
type tagEvent struct {
	Name     string          `json:"event_name"`
	ID       string          `json:"event_id"`
	At       float64         `json:"at"`
	URL      string          `json:"event_source_url"`
	Referrer string          `json:"referrer_url"`
	Custom   json.RawMessage `json:"custom_data"`
	User     struct {
		Email      string `json:"em"`
		Phone      string `json:"ph"`
		ExternalID string `json:"external_id"`
		FBC        string `json:"fbc"`
		FBP        string `json:"fbp"`
	} `json:"user_data"`
	Consent *said `json:"consent"` // as it was when it happened; nil: that of the report
	LDU     *struct {
		Country int `json:"country"`
		State   int `json:"state"`
	} `json:"ldu"`
	Form bool `json:"form"`
}

// tagSighting is what the tag saw the Pixel report.
type tagSighting struct {
	Number     string  `json:"n"`
	Pixel      string  `json:"pixel"`
	Name       string  `json:"event_name"`
	EventID    string  `json:"event_id"`
	At         float64 `json:"at"`
	URL        string  `json:"url"`
	ExternalID string  `json:"external_id"`
	Own        bool    `json:"own"`
	Blocked    bool    `json:"blocked"`
}

func (r *report) items() int { return len(r.Events) + len(r.Sightings) }

// readReport reads JSON that was checked.
func readReport(raw []byte) (report, *wrong) {
	const fix = "let the script of GET /t.js report, and load it anew"
	var r report
	if raw[0] != '{' {
		return r, &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "want an object, got " + shape(raw), fix, ""}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		field := ""
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			field = e.Field
		}
		return r, &wrong{http.StatusUnprocessableEntity, capi.ProblemWrongType, "a member of the report is not of its type", fix, field}
	}
	switch {
	case r.Version != tagVersion:
		return r, &wrong{http.StatusUnprocessableEntity, "unknown_version", "the report has another version than " + strconv.Itoa(tagVersion), fix, "v"}
	case r.items() > maxItems:
		return r, &wrong{http.StatusRequestEntityTooLarge, "too_many_items", "the report holds more than 200 events and sightings", "send fewer at once", "events"}
	}
	return r, nil
}
