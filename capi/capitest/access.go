package capitest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// authorise checks the token and appsecret_proof of a call. Pages "Error handling",
// "Securing Graph API requests".
func (g *Graph) authorise(q *request) (Token, *graphError) {
	if q.token == "" {
		e := errorFor(104, 0)
		e.Message = "An access token is required to request this resource."
		return Token{}, e
	}
	t, err := g.lookUp(q.token)
	if err != nil {
		return t, err
	}
	if g.options.AppSecret != "" && !hmac.Equal([]byte(strings.ToLower(q.get("appsecret_proof"))), []byte(Proof(g.options.AppSecret, q.token))) {
		return t, errorFor(104, 0)
	}
	return t, nil
}

// Proof is the appsecret_proof of a token: the hex HMAC-SHA256 of the token, keyed
// with the app secret.
func Proof(appSecret, token string) string {
	m := hmac.New(sha256.New, []byte(appSecret))
	m.Write([]byte(token))
	return hex.EncodeToString(m.Sum(nil))
}

// lookUp tells what a token may do.
func (g *Graph) lookUp(token string) (Token, *graphError) {
	g.access.RLock()
	t, ok := g.tokens[token]
	anyToken := g.tokens == nil
	if !ok && !anyToken {
		for id, p := range g.pages {
			if pageToken(id, p) == token {
				t, ok = Token{Type: "PAGE", Pages: []string{id}, Datasets: []string{}}, true
			}
		}
	}
	g.access.RUnlock()
	now := g.now()
	switch {
	case anyToken && strings.HasPrefix(token, "bad"):
		_, digits, _ := strings.Cut(token, "-")
		sub, _ := strconv.Atoi(digits)
		return t, errorFor(190, sub)
	case anyToken:
		return t, nil
	case !ok:
		return t, errorFor(190, 0)
	case t.Subcode != 0:
		return t, errorFor(190, t.Subcode)
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		e := errorFor(190, 463)
		const layout = "Monday, 02-Jan-06 15:04:05 MST"
		e.Message = fmt.Sprintf("Error validating access token: Session has expired on %s. The current time is %s.",
			t.Expires.UTC().Format(layout), now.UTC().Format(layout))
		return t, e
	}
	return t, nil
}

// pageToken is a page's access token; one that was not given is made up.
func pageToken(id string, p Page) string { return orElse(p.Token, "page-token-"+id) }

// dataset finds a dataset that the token may use; otherwise 100/33, which is also
// what a lapsed share answers.
func (g *Graph) dataset(id string, t Token, verb string) (Dataset, *graphError) {
	g.access.RLock()
	d, ok := g.datasets[id]
	ok = ok || g.datasets == nil
	g.access.RUnlock()
	lapsed := !d.AccessExpires.IsZero() && !g.now().Before(d.AccessExpires)
	if !ok || lapsed || t.Datasets != nil && !slices.Contains(t.Datasets, id) {
		return d, unknownObject(id, verb)
	}
	if d.Created.IsZero() {
		d.Created = g.now().Add(-30 * 24 * time.Hour)
	}
	d.Name = orElse(d.Name, "Dataset "+id)
	return d, nil
}

func (g *Graph) page(id string, t Token, verb string) (Page, *graphError) {
	g.access.RLock()
	p, ok := g.pages[id]
	ok = ok || g.pages == nil
	g.access.RUnlock()
	if !ok || t.Pages != nil && !slices.Contains(t.Pages, id) {
		return p, unknownObject(id, verb)
	}
	p.Name = orElse(p.Name, "Page "+id)
	return p, nil
}

// unknownObject is 100/33; the verb is "get" or "post".
func unknownObject(id, verb string) *graphError {
	e := errorFor(100, 33, id)
	e.Message = strings.Replace(e.Message, "post", verb, 1)
	return e
}
