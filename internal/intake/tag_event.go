package intake

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// tagReader turns a report into what is recorded.
type tagReader struct {
	*visitor
	report   *report
	tag      website.Tag
	required bool // the workspace's consent: required
	now      time.Time
}

// moment is when something happened by our clock: as long ago as it is by the browser's,
// which may be wrong by years but is the same for both times.
func (rd *tagReader) moment(at float64) time.Time {
	sent := rd.report.Sent
	if sent <= 0 {
		sent = float64(rd.now.UnixMilli())
	}
	const tooLong = float64(10 * 365 * 24 * time.Hour / time.Millisecond)
	ago := min(max(sent-at, 0), tooLong)
	if at <= 0 {
		ago = 0
	}
	return rd.now.Add(-time.Duration(ago) * time.Millisecond)
}

// items are the events. One that is broken is an item, too, for it is counted.
func (rd *tagReader) items() []record.Item {
	list := make([]record.Item, 0, len(rd.report.Events))
	for _, raw := range rd.report.Events {
		list = append(list, rd.item(raw))
	}
	return list
}

func (rd *tagReader) item(raw []byte) record.Item {
	var in tagEvent
	if err := json.Unmarshal(raw, &in); err != nil {
		field := "event"
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
			field = e.Field
		}
		return record.Item{Problems: capi.Problems{*refuse(field, capi.ProblemWrongType, "a member of the event is not of its type", "send what the tag's page names")}}
	}
	s := rd.report.Consent
	if in.Consent != nil {
		s = *in.Consent
	}
	at := rd.moment(in.At)
	item := record.Item{
		Event:   &capi.Event{EventName: in.Name, EventID: in.ID, EventTime: at.Unix(), ActionSource: capi.ActionSourceWebsite},
		Consent: rd.decisionOf(s), Form: in.Form,
	}
	u := &item.Event.UserData
	u.ClientUserAgent = rd.call.Header.Get("User-Agent")
	if p := unstorable(item.Event); p != nil {
		item.Problems = capi.Problems{*p}
		return item
	}
	switch {
	case !rd.tag.Wait.Admits(item.Consent, rd.required):
		item.Unsent = ledger.NoConsent
		return item // nothing else of it is looked at
	case !ledger.Deadline(at, capi.ActionSourceWebsite).After(rd.now):
		item.Unsent = ledger.Expired
		return item
	}
	rd.fill(&item, &in, at)
	return item
}

// fill adds what may be said of an event with consent, or of a plain one.
func (rd *tagReader) fill(item *record.Item, in *tagEvent, at time.Time) {
	e, u := item.Event, &item.Event.UserData
	if len(in.Custom) > 0 && !isNull(in.Custom) {
		var about capi.Event
		if err := about.UnmarshalJSON(append(append([]byte(`{"custom_data":`), in.Custom...), '}')); err != nil {
			p, ok := errors.AsType[capi.Problem](err)
			if !ok {
				p = *refuse("custom_data", capi.ProblemWrongType, "want an object", "send Meta's custom_data")
			}
			item.Problems = append(item.Problems, p)
		}
		e.CustomData = about.CustomData
	}
	if rd.limits(item.Consent) {
		rd.limit(e, 0, 0)
	}
	if in.LDU != nil {
		rd.limit(e, in.LDU.Country, in.LDU.State)
	}
	e.EventSourceURL = rd.page(in.URL)
	if item.Consent.By == ledger.ByPlain {
		e.EventSourceURL, _, _ = strings.Cut(e.EventSourceURL, "#")
		e.EventSourceURL, _, _ = strings.Cut(e.EventSourceURL, "?")
		u.ClientIPAddress = capi.ClientAddress("", rd.call.peer.String())
		return
	}
	u.ClientIPAddress = rd.address()
	e.ReferrerURL = in.Referrer
	u.FBC, u.FBP = in.User.FBC, in.User.FBP
	if u.FBC == "" { // as the page "fbp and fbc" asks of servers that keep no cookie
		fbc, _ := capi.NextFBC("", capi.ClickID(in.URL), "", at)
		u.FBC = fbc.String()
	}
	for _, k := range []struct {
		list *[]string
		raw  string
	}{{&u.Email, in.User.Email}, {&u.Phone, in.User.Phone}, {&u.ExternalID, in.User.ExternalID}} {
		if strings.TrimSpace(k.raw) != "" {
			*k.list = []string{k.raw}
		}
	}
}

// limits tells whether the browser's wish not to be sold or shared holds: it does unless
// the visitor told the site otherwise.
func (rd *tagReader) limits(d ledger.Decision) bool {
	return d.GPC && (d.Consent != ledger.ConsentGranted || d.By != "site")
}

// limit asks Meta for Limited Data Use. Country and state 0 let Meta find out by the
// address whether it has to.
func (rd *tagReader) limit(e *capi.Event, country, state int) {
	e.DataProcessingOptions = []string{"LDU"}
	e.DataProcessingOptionsCountry, e.DataProcessingOptionsState = &country, &state
}

// page is the page's address, or what the request tells of it.
func (rd *tagReader) page(address string) string {
	for _, a := range []string{address, rd.call.Header.Get("Referer")} {
		if strings.HasPrefix(a, "https://") || strings.HasPrefix(a, "http://") {
			return a
		}
	}
	return rd.origin + "/"
}

// address is the visitor's. Meta's parameter builder keeps an IPv6 address in _fbi.
func (rd *tagReader) address() string {
	fbi := ""
	if cookie, err := rd.call.Cookie("_fbi"); err == nil {
		fbi = cookie.Value
	}
	return capi.ClientAddress(fbi, rd.call.peer.String())
}

const maxSeenText = 500 // bytes of a text of a sighting; a longer one is nobody's

// sightings are what the tag saw the Pixel do, where it may tell.
func (rd *tagReader) sightings() []record.Sighting {
	d := rd.decisionOf(rd.report.Consent)
	if !rd.tag.Wait.Admits(d, rd.required) || d.By == ledger.ByPlain {
		return nil
	}
	list := make([]record.Sighting, 0, len(rd.report.Sightings))
	for _, raw := range rd.report.Sightings {
		var in tagSighting
		if json.Unmarshal(raw, &in) != nil || !in.sound() {
			continue
		}
		if !isDigits(in.Pixel) {
			in.Pixel = ""
		}
		list = append(list, record.Sighting{
			Site: rd.tag.Site, Number: in.Number, Dataset: in.Pixel, Name: in.Name, EventID: in.EventID, At: rd.moment(in.At), Page: in.URL,
			FBP: rd.report.FBP, ExternalID: in.ExternalID, Address: rd.address(), Agent: rd.call.Header.Get("User-Agent"),
			Own: in.Own, Blocked: in.Blocked,
		})
	}
	return list
}

// sound tells whether a sighting can be kept: databases have limits.
func (s *tagSighting) sound() bool {
	if s.Number == "" || s.Name == "" || len(s.Name) > maxName || strings.IndexByte(s.URL, 0) >= 0 {
		return false
	}
	for _, text := range []string{s.Number, s.Pixel, s.Name, s.EventID, s.ExternalID} {
		if len(text) > maxSeenText || strings.IndexByte(text, 0) >= 0 {
			return false
		}
	}
	return true
}
