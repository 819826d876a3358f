// Package meta reads leads of Meta's instant forms. The webhook brings ids only,
// signed with the app's secret; the lead is then read from Graph with the Page's
// token, and the Page's forms are swept for leads whose webhook never came.
package meta

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
)

// Name is the sources' kind.
const Name = "meta_leads"

// Config says how Graph is reached. Its zero value is Meta's own.
type Config struct {
	Transport http.RoundTripper // nil: one of the kind's own
	URL       string            // Graph's base, where the source has no url
	Version   string            // Graph's version, where the source has no api_version
	Now       func() time.Time  // the clock; nil: time.Now
}

// Kind is Meta's lead forms.
type Kind struct {
	config Config
	http   *http.Client
	forms  forms
}

var (
	_ leadform.Fetcher = (*Kind)(nil)
	_ leadform.Sweeper = (*Kind)(nil)
	_ leadform.Checker = (*Kind)(nil)
)

// New returns the kind.
func New(c Config) *Kind {
	if c.Transport == nil {
		if t, ok := http.DefaultTransport.(*http.Transport); ok {
			t = t.Clone()
			t.MaxIdleConnsPerHost = 16
			c.Transport = t
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Kind{config: c, http: &http.Client{Transport: c.Transport}, forms: forms{pages: make(map[pageKey]*pageForms)}}
}

// Options lists the settings.
func (*Kind) Options() []leadform.Option {
	return []leadform.Option{
		{Name: "page_id", Required: true, Help: "id of the Facebook Page that the forms belong to"},
		{Name: "page_token", Type: leadform.SecretText, Help: "token of the Page, from a system user with leads_retrieval; without it leads cannot be read"},
		{Name: "app_secret", Type: leadform.SecretText, Required: true, Help: "secret of the Meta app: it signs the webhooks and the reads"},
		{Name: "verify_token", Type: leadform.SecretText, Required: true, Help: "what you entered as verify token in the app's Webhooks page"},
		{Name: "consent_box", Help: "key of the tick box of the form's disclaimer that decides about consent; without it the lead says nothing about it"},
		{Name: "url", Help: "address of Graph, default " + capi.DefaultBaseURL},
		{Name: "api_version", Help: "version of Graph, default " + capi.DefaultVersion},
	}
}

// reader returns a reader with the Page's token. It is made anew for each use, for
// the token may have been replaced; the connections are the kind's.
func (k *Kind) reader(s leadform.Source) (*capi.Reader, error) {
	c := capi.Config{
		BaseURL: firstOf(s.Options.Text("url"), k.config.URL), Version: firstOf(s.Options.Text("api_version"), k.config.Version),
		Token: s.Options.Secret("page_token").Reveal(), AppSecret: s.Options.Secret("app_secret").Reveal(), HTTPClient: k.http,
	}
	if strings.TrimSpace(c.Token) == "" {
		return nil, errors.New("page_token is missing: put in the token of the Page")
	}
	return capi.NewReader(c)
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}

func pageID(s leadform.Source) string { return strings.TrimSpace(s.Options.Text("page_id")) }

// isHistory tells whether a lead was there before its source. Graph's times are
// whole seconds.
func isHistory(created time.Time, s leadform.Source) bool {
	return !created.IsZero() && created.Before(s.CreatedAt.Truncate(time.Second))
}
