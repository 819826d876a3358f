// Package website reads the forms of websites, posted by the visitor's browser or by
// the form builder's server, as JSON, urlencoded or multipart.
//
// Nothing is signed and the address stands in the page's source: a honeypot, the list
// of origins and intake's rate limit keep the worst out. Takes a request, gives one
// lead and a redirect or JSON. Shapes of Elementor, Webflow, Typeform, Tally, Gravity
// Forms, WPForms and Contact Form 7 are known; other names go through the field map.
//
// # Origins
//
// A browser names the page's origin with every post. With a list of origins only
// those are let in, given as https://shop.example.com, shop.example.com (any scheme),
// *.example.com (and what is below) or *. A form builder's server names none: it is
// let in where there is no list, or the list has the word server. Without a list every
// origin may post, for an origin keeps out other people's pages, never a program.
package website

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Name is the kind's name in the configuration.
const Name = "website"

// DefaultHoneypot is the input that people do not see and robots fill in. It is no
// name that a form would have for a question.
const DefaultHoneypot = "hp_website"

// Kind is a website's form. The zero value is ready.
type Kind struct{}

var _ leadform.Kind = Kind{}

// Options lists the settings.
func (Kind) Options() []leadform.Option {
	return []leadform.Option{
		{Name: "site", Type: leadform.Text, Needs: "origins", Key: true, Help: "public key of the site, for the tag: letters, digits, - and _; it stands in the page's source"},
		{Name: "origins", Type: leadform.List, Help: "origins of the pages that may post: https://shop.example.com, *.example.com, server for form builders' servers; none: all, but never for the tag"},
		{Name: "consent", Type: leadform.Map, Keys: map[string][]string{"wait": waits}, Help: "{wait: hold}: what the tag does before the visitor has decided: hold (default) the events in memory, drop them, send them plain (without what identifies), or send them until somebody refuses"},
		{Name: "fbp", Type: leadform.Text, OneOf: []string{"read", "create"}, Help: "read (default): the tag takes the Pixel's cookie _fbp where there is one; create: it makes one"},
		{Name: "pageview", Type: leadform.Text, OneOf: yesOrNo, Help: "true: the tag reports PageView by itself (default false)"},
		{Name: "pixel", Type: leadform.Text, OneOf: yesOrNo, Help: "false: the tag leaves the Pixel on the page alone (default true: it calls it with the same event id)"},
		{Name: "honeypot", Type: leadform.Text, Help: "input that must stay empty, hidden from people (default " + DefaultHoneypot + ")"},
		{Name: "redirect", Type: leadform.Text, Help: "thank-you page that a browser is sent to"},
		{Name: "fields", Type: leadform.Map, Help: "input's name, label or path (payload.data.Wann) to a standard field, a name of your own, or - to drop it"},
	}
}

// Receive reads a form. What looks like a robot's is answered like a person's.
func (Kind) Receive(r leadform.Request, s leadform.Source, now time.Time) leadform.Received {
	headers, allowed := admit(r.Header, s.Options.List("origins"))
	say := func(status int, message string) leadform.Received {
		return leadform.Received{Answer: refusal(status, message, headers)}
	}
	switch {
	case !allowed && r.Header.Get("Origin") == "":
		return say(http.StatusForbidden, "the request names no origin: add server to this source's origins if a form builder's server sends it")
	case !allowed:
		return say(http.StatusForbidden, "pages of this origin may not post here: add it to this source's origins")
	case r.Method == http.MethodOptions:
		headers.Set("Access-Control-Allow-Methods", http.MethodPost)
		headers.Set("Access-Control-Allow-Headers", "Content-Type, X-Requested-With")
		headers.Set("Access-Control-Max-Age", "86400")
		return leadform.Received{Answer: leadform.Answer{Status: http.StatusNoContent, Headers: headers}}
	case r.Method != http.MethodPost:
		headers.Set("Allow", "OPTIONS, POST")
		return say(http.StatusMethodNotAllowed, "a form is sent with POST")
	}
	tree, problem := decode(r.Header.Get("Content-Type"), r.Body)
	if problem != "" {
		return say(http.StatusBadRequest, problem)
	}
	received := leadform.Received{Answer: thanks(r, s, headers), Busy: http.StatusServiceUnavailable}
	if trapped(tree, s) || isOther(tree) {
		return received
	}
	l := read(tree, r, s, now)
	if len(l.Answers) == 0 {
		return say(http.StatusUnprocessableEntity, "no field of the form is filled in")
	}
	received.Leads = []ledger.Lead{l}
	return received
}

// trapped tells whether the honeypot is filled in, wherever in the form it stands.
func trapped(tree *node, s leadform.Source) bool {
	name := honeypot(s)
	filled := false
	tree.walk(nil, func(path []string, n *node) {
		filled = filled || path[len(path)-1] == name && strings.TrimSpace(n.text) != ""
	})
	for _, f := range shape(tree).fields {
		if f.name == name || f.label == name {
			filled = filled || strings.TrimSpace(strings.Join(f.values, "")) != ""
		}
	}
	return filled
}

func honeypot(s leadform.Source) string {
	if name := s.Options.Text("honeypot"); name != "" {
		return name
	}
	return DefaultHoneypot
}

// thanks answers a program with JSON and sends a browser on to the thank-you page.
func thanks(r leadform.Request, s leadform.Source, headers http.Header) leadform.Answer {
	page := s.Options.Text("redirect")
	if page == "" || wantsJSON(r) {
		if page == "" && strings.Contains(r.Header.Get("Accept"), "text/html") && !wantsJSON(r) {
			return leadform.Answer{Status: http.StatusOK, Body: []byte("Thank you.\n"), Headers: headers}
		}
		return leadform.Answer{Status: http.StatusOK, ContentType: "application/json", Body: []byte(`{"ok":true}`), Headers: headers}
	}
	return leadform.Answer{Status: http.StatusSeeOther, Location: page, Headers: headers}
}

func wantsJSON(r leadform.Request) bool {
	accept := r.Header.Get("Accept")
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return strings.Contains(accept, "application/json") || strings.EqualFold(r.Header.Get("X-Requested-With"), "XMLHttpRequest") ||
		err == nil && isJSON(media) && !strings.Contains(accept, "text/html")
}

func refusal(status int, message string, headers http.Header) leadform.Answer {
	body, err := json.Marshal(struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}{Error: message})
	if err != nil { // texts of our own always encode
		body = []byte(`{"ok":false}`)
	}
	return leadform.Answer{Status: status, ContentType: "application/json", Body: body, Headers: headers}
}
