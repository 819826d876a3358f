package crm

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/secret"
)

// Login says how an account proves itself: with a fixed token, or with a refresh token
// (the options client_id, client_secret and refresh_token) if TokenURL is set.
type Login struct {
	Token    secret.Secret
	Header   string // of the fixed token; "": Authorization: Bearer
	TokenURL string
	JSON     bool              // the token endpoint takes JSON
	Basic    bool              // client id and secret go into the Authorization header
	Extra    map[string]string // further fields of the token request
}

// OAuth makes calls with an account's credential. It keeps access tokens in memory until
// shortly before they end; safe for concurrent use.
type OAuth struct {
	caller *Caller
	mu     sync.Mutex
	grants map[int64]*grant
}

// grant is the access of one account.
type grant struct {
	mu         sync.Mutex
	configured string // the refresh token that the settings had
	refresh    string // the newest one
	unsaved    bool   // the newest one is not in the settings yet
	access     string
	domain     string
	until      time.Time
}

// NewOAuth returns one that calls by caller.
func NewOAuth(c *Caller) *OAuth { return &OAuth{caller: c, grants: map[int64]*grant{}} }

// Do makes the call that build returns. A 401 to a token of a Login with TokenURL renews it
// and repeats the call once. build is given the API's base address as the token endpoint
// named it ("api_domain"), "" if it did not.
func (o *OAuth) Do(ctx context.Context, a Account, l Login, build func(domain string) Request) (Reply, error) {
	if l.TokenURL == "" {
		r := build("")
		name, value := "Authorization", "Bearer "+l.Token.Reveal()
		if l.Header != "" {
			name, value = l.Header, l.Token.Reveal()
		}
		reply, err := o.caller.Do(ctx, withHeader(r, name, value))
		return withoutToken(reply, l.Token.Reveal()), err
	}
	refused := ""
	for {
		access, domain, err := o.token(ctx, a, l, refused)
		if err != nil {
			return Reply{}, err
		}
		reply, err := o.caller.Do(ctx, withHeader(build(domain), "Authorization", "Bearer "+access))
		if err != nil || reply.Status != http.StatusUnauthorized || refused != "" {
			return withoutToken(reply, access), err
		}
		refused = access
	}
}

// withoutToken takes the credential out of an answer that repeats it.
func withoutToken(r Reply, token string) Reply {
	if len(token) >= 8 {
		r.Body = bytes.ReplaceAll(r.Body, []byte(token), []byte("***"))
	}
	return r
}

func withHeader(r Request, name, value string) Request {
	header := map[string]string{name: value}
	maps.Copy(header, r.Header)
	r.Header = header
	return r
}

// token returns an access token other than refused.
func (o *OAuth) token(ctx context.Context, a Account, l Login, refused string) (access, domain string, err error) {
	g := o.grant(a)
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := a.Options.Text("refresh_token"); now != g.configured {
		if now != g.refresh { // a person put in a new one
			g.refresh, g.access, g.unsaved = now, "", false
		}
		g.configured = now
	}
	if g.access == "" || g.access == refused || !time.Now().Before(g.until) {
		if err := o.renew(ctx, a, l, g); err != nil {
			return "", "", err
		}
	}
	if g.unsaved && a.SaveOption != nil {
		// If it cannot be kept now, the next call tries again; until a restart it is in memory.
		g.unsaved = a.SaveOption(ctx, "refresh_token", secret.New(g.refresh)) != nil
	}
	return g.access, g.domain, nil
}

func (o *OAuth) grant(a Account) *grant {
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.grants[a.ID]
	if g == nil {
		g = &grant{}
		o.grants[a.ID] = g
	}
	return g
}

// Unsaved tells whether a renewed refresh token could not be kept yet.
func (o *OAuth) Unsaved(a Account) bool {
	g := o.grant(a)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsaved
}

func (o *OAuth) renew(ctx context.Context, a Account, l Login, g *grant) error {
	r := tokenRequest(a, l, g.refresh)
	reply, err := o.caller.Do(ctx, r)
	hide := append(Private(a, nil), g.refresh)
	if err != nil {
		// Nothing of the lead was sent, so this is never "maybe done".
		return &CallError{Stage: NoAccess, Message: "renew the access token: " + Scrub(err.Error(), hide)}
	}
	var answer struct {
		Access  string  `json:"access_token"`
		Refresh string  `json:"refresh_token"`
		Expires float64 `json:"expires_in"`
		Domain  string  `json:"api_domain"`
	}
	bad := json.Unmarshal(reply.Body, &answer)
	if reply.Status != http.StatusOK || bad != nil || answer.Access == "" {
		words, _ := Words(reply)
		return &CallError{Stage: NoAccess, Message: "renew the access token: " + Scrub(words, hide), became: reply}
	}
	life := time.Duration(answer.Expires) * time.Second
	if life <= 0 {
		life = 30 * time.Minute
	}
	g.access, g.domain = answer.Access, answer.Domain
	g.until = time.Now().Add(life - min(time.Minute, life/4))
	if answer.Refresh != "" && answer.Refresh != g.refresh {
		g.refresh, g.unsaved = answer.Refresh, true
	}
	return nil
}

func tokenRequest(a Account, l Login, refresh string) Request {
	fields := map[string]string{"grant_type": "refresh_token", "refresh_token": refresh}
	r := Request{Method: http.MethodPost, URL: l.TokenURL, Private: a.Options.Is("allow_private")}
	id, key := a.Options.Text("client_id"), a.Options.Text("client_secret")
	if l.Basic {
		req := http.Request{Header: http.Header{}}
		req.SetBasicAuth(id, key)
		r.Header = map[string]string{"Authorization": req.Header.Get("Authorization")}
	} else {
		fields["client_id"], fields["client_secret"] = id, key
	}
	maps.Copy(fields, l.Extra)
	if l.JSON {
		r.Body = JSON(fields)
		return r
	}
	form := url.Values{}
	for k, v := range fields {
		form.Set(k, v)
	}
	r.Type, r.Body = "application/x-www-form-urlencoded", []byte(form.Encode())
	return r
}

// JSON encodes a body; < > & stay as they are, and there is no line break at the end.
func JSON(v any) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("crm: a body that cannot be encoded: " + err.Error()) // bodies are maps of texts and numbers
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
