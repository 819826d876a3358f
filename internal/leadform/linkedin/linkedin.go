// Package linkedin reads leads of LinkedIn's lead gen forms (Lead Sync). The webhook
// proves itself by a challenge and brings signed word of a lead, or of one that the
// member has taken back; the lead is then read by REST, together with its form.
package linkedin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
)

// Name is the sources' kind.
const Name = "linkedin_leads"

// What a source uses that does not say otherwise.
const (
	DefaultURL     = "https://api.linkedin.com"
	DefaultVersion = "202610" // LinkedIn keeps a version for a year
)

const timeout = 30 * time.Second

// Config says how LinkedIn is reached. Its zero value is LinkedIn's own API.
type Config struct {
	Transport http.RoundTripper // nil: one of the kind's own
	URL       string            // where the source has no url
	Version   string            // where the source has no version
	Now       func() time.Time  // the clock; nil: time.Now
}

// Kind is LinkedIn's lead forms.
type Kind struct {
	config Config
	http   *http.Client
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
			c.Transport = t.Clone()
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Kind{config: c, http: &http.Client{
		Transport: c.Transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token must not follow
	}}
}

// Options lists the settings.
func (*Kind) Options() []leadform.Option {
	return []leadform.Option{
		{Name: "client_secret", Type: leadform.SecretText, Required: true, Help: "client secret of the LinkedIn app: it signs the webhooks"},
		{Name: "token", Type: leadform.SecretText, Required: true, Help: "access token with r_marketing_leadgen_automation"},
		{Name: "owner", Help: "whose leads are swept: urn:li:sponsoredAccount:N or urn:li:organization:N; without it only webhooks bring leads"},
		{Name: "consent_id", Help: "id of the form's consent box that decides about consent; without it the lead says nothing about it"},
		{Name: "version", Help: "LinkedIn-Version (YYYYMM), default " + DefaultVersion},
		{Name: "url", Help: "address of LinkedIn's API, default " + DefaultURL},
	}
}

// api is what a source's settings say about LinkedIn's API.
type api struct {
	base    string
	version string
	token   string
	http    *http.Client
}

func (k *Kind) api(s leadform.Source) (api, error) {
	a := api{
		base:    strings.TrimRight(firstOf(s.Options.Text("url"), k.config.URL, DefaultURL), "/"),
		version: firstOf(s.Options.Text("version"), k.config.Version, DefaultVersion),
		token:   strings.TrimSpace(s.Options.Secret("token").Reveal()), http: k.http,
	}
	base, err := url.Parse(a.base)
	switch {
	case err != nil, base.Scheme != "https" && base.Scheme != "http", base.Host == "", base.User != nil, base.RawQuery != "", base.Fragment != "":
		return api{}, errors.New("url must look like " + DefaultURL)
	case a.token == "":
		return api{}, errors.New("token is missing: put in an access token with r_marketing_leadgen_automation")
	case strings.ContainsFunc(a.token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return api{}, errors.New("token contains a character that no token has (a space, a line break): copy it again")
	case len(a.version) != 6 || strings.Trim(a.version, "0123456789") != "":
		return api{}, errors.New("version must be a year and a month, like " + DefaultVersion)
	}
	return a, nil
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}
