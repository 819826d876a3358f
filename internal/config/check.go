package config

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/secret"
)

var (
	workspaceName = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9-]{0,62}\z`)
	datasetID     = regexp.MustCompile(`\A[1-9][0-9]{0,19}\z`)
	graphVersion  = regexp.MustCompile(`\Av[0-9]+\.[0-9]+\z`)
	testCode      = regexp.MustCompile(`\A[A-Za-z0-9_-]{0,64}\z`)
	visible       = regexp.MustCompile(`\A[!-~]*\z`)
)

// minKey is how long an API key must be: 20 characters of a random key are beyond
// guessing, 20 of a sentence are still no name that somebody tries.
const minKey = 20

// minKept keeps a payload long enough to be looked at after it left, and a lead's
// contact data long enough to reach a CRM that is down for a night.
const minKept = day

// maxMerge bounds the merge window: within a month, people enquire about another
// thing.
const maxMerge = 30 * day

func boolOf(text string) (bool, *flaw) {
	if text != "true" && text != "false" {
		return false, &flaw{"is neither true nor false", "set the variable to true or false"}
	}
	return text == "true", nil
}

func listenOf(text string) (string, *flaw) {
	bad := &flaw{"is no address to listen on", "write host:port, such as 127.0.0.1:8080, or :8080 for every interface"}
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, " \t\r\n/@") {
		return "", bad
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", bad
	}
	return text, nil
}

// address reads an absolute address of the web, without a slash at the end.
func address(text string) (*url.URL, *flaw) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Hostname() == "" || u.Opaque != "" {
		return nil, &flaw{"is no absolute address", "write https://host, with a port or path where needed"}
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(text, "#") {
		return nil, &flaw{"is an address with a user, a query or a fragment", "write scheme, host, port and path only"}
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, &flaw{"is an address with a port that cannot be", "write a port from 1 to 65535"}
		}
	}
	return u, nil
}

// publicOf reads our own address. It may be plain http: in an inner network, what
// stands before us speaks TLS.
func publicOf(text string) (string, *flaw) {
	u, f := address(text)
	if f != nil {
		return "", f
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// baseOf reads the address that tokens are sent to.
func baseOf(text string) (string, *flaw) {
	u, f := address(text)
	if f != nil {
		return "", f
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return "", &flaw{"is plain http to another machine, which would show the access token to everyone on the way", "write https://, or http:// with 127.0.0.1, [::1] or localhost"}
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func databaseOf(text string) (secret.Secret, *flaw) {
	const fix = "write the path of a file, such as data/capiloop.db, or postgres://user:password@host:5432/name"
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case isPostgres(text):
		if u, err := url.Parse(text); err != nil || u.Path == "" || u.Path == "/" {
			return secret.Secret{}, &flaw{"is no PostgreSQL address with a database's name", "write postgres://user:password@host:5432/name; signs such as @ / : # in the password as %40 %2F %3A %23"}
		}
	case isURL && !strings.Contains(scheme, "/"), strings.HasPrefix(text, "file:"), strings.HasPrefix(text, ":memory:"):
		return secret.Secret{}, &flaw{"names a database that is not supported", fix}
	case strings.TrimSpace(text) != text, text == "", strings.HasSuffix(text, "/"), text == ".", text == "..", strings.ContainsRune(text, 0):
		return secret.Secret{}, &flaw{"is not the path of a file", fix}
	}
	return secret.New(text), nil
}

func versionOf(text string) (string, *flaw) {
	if !graphVersion.MatchString(text) {
		return "", &flaw{"is no version of Graph", "write it as " + capi.DefaultVersion}
	}
	return text, nil
}

// proxyOf reads a network, or the address of one machine.
func proxyOf(text string) (netip.Prefix, *flaw) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, &flaw{"is neither a network nor an address", "write it as 10.0.0.0/8 or 192.0.2.7"}
	case p.Bits() == 0:
		return p, &flaw{"is everyone, and then everyone could claim any address", "write the network of your own proxies"}
	case p != p.Masked():
		return p, &flaw{"is an address inside of a network", fmt.Sprintf("write %s for the network", p.Masked())}
	}
	return p, nil
}

func formatOf(text string) (string, *flaw) {
	if text != "text" && text != "json" {
		return "", &flaw{"is no format of the log", "write text or json"}
	}
	return text, nil
}

func levelOf(text string) (slog.Level, *flaw) {
	switch text {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, &flaw{"is no level of the log", "write debug, info, warn or error"}
}

func nameOf(text string) (string, *flaw) {
	if !workspaceName.MatchString(text) {
		return "", &flaw{"is no name for a workspace", "write up to 63 letters, digits and dashes, beginning with a letter or digit"}
	}
	return text, nil
}

func countryOf(text string) (string, *flaw) {
	fix := "write the two letters of ISO 3166, such as DE or KZ"
	n, p := capi.NormaliseValue(capi.KeyCountry, text, capi.Locale{})
	if p == nil && len(n.Texts) == 1 {
		code := strings.ToUpper(n.Texts[0])
		if strings.EqualFold(code, text) {
			return code, nil
		}
		fix = "write " + code
	}
	return "", &flaw{"is no country code", fix}
}

func currencyOf(text string) (string, *flaw) {
	fix := "write the three letters of ISO 4217, such as EUR or KZT"
	code, p := capi.NormaliseCurrency(text)
	if p == nil && code != "" {
		if strings.EqualFold(code, text) {
			return code, nil
		}
		fix = "write " + code
	}
	return "", &flaw{"is no currency code", fix}
}

func timezoneOf(text string) (*time.Location, *flaw) {
	zone, err := time.LoadLocation(text)
	// "" is UTC and Local is whatever the machine has: both hide what is meant.
	if err != nil || text == "" || text == "Local" {
		return nil, &flaw{"is no time zone", "write a name of the IANA list, such as Europe/Berlin or Asia/Almaty"}
	}
	return zone, nil
}

func keyOf(text string) (capi.KeySet, *flaw) {
	set := capi.KeySet(0).Add(capi.Key(text))
	if set != 0 {
		return set, nil
	}
	known := strings.Split(capi.AllKeys.String(), ",")
	near := plainNames[text]
	if near == "" {
		near = nearest(text, known)
	}
	if near != "" {
		return 0, &flaw{"is no match key of Meta's", fmt.Sprintf("did you mean %s?", near)}
	}
	return 0, &flaw{"is no match key of Meta's", "the keys are " + strings.Join(known, ", ")}
}

// plainNames are the words that people write for Meta's short ones.
var plainNames = map[string]string{
	"email": "em", "phone": "ph", "first_name": "fn", "last_name": "ln", "gender": "ge", "birthday": "db",
	"city": "ct", "state": "st", "zip": "zp",
}

func consentOf(text string) (bool, *flaw) {
	if text != "caller" && text != "required" {
		return false, &flaw{"is no rule of consent", "write caller (who sends an event vouches for it) or required (no event leaves without consent)"}
	}
	return text == "required", nil
}

func payloadOf(text string) (time.Duration, *flaw) {
	return keptOf(text, "is too short to look at what was sent")
}

func contactOf(text string) (time.Duration, *flaw) {
	return keptOf(text, "is too short to hand a lead over to a CRM that is down")
}

func keptOf(text, short string) (time.Duration, *flaw) {
	d, err := ParseDuration(text)
	if err != nil {
		return 0, &flaw{"is no span of time", "write a number and a unit: 30d, 24mo, 12h"}
	}
	if d < minKept {
		return 0, &flaw{short, "write 1d or more"}
	}
	return d, nil
}

func mergeWindowOf(text string) (time.Duration, *flaw) {
	d, err := ParseDuration(text)
	if err != nil {
		return 0, &flaw{"is no span of time", "write a number and a unit: 1h, 90m, 2d; 0h merges nothing"}
	}
	if d > maxMerge {
		return 0, &flaw{"is longer than one enquiry lasts", "write 30d or less"}
	}
	return d, nil
}

// minPoll keeps us within the CRMs' daily limits of calls.
const minPoll = 30 * time.Second

func pollOf(text string) (time.Duration, *flaw) {
	if text == "off" {
		return 0, nil
	}
	d, err := ParseDuration(text)
	if err != nil || d < minPoll || d > day {
		return 0, &flaw{"is no span of time between two looks at a CRM", "write 30s to 1d, such as 1m or 15m, or off"}
	}
	return d, nil
}

func datasetOf(text string) (string, *flaw) {
	if text != Sandbox && !datasetID.MatchString(text) {
		return "", &flaw{"is no id of a dataset", "write the digits that Events Manager shows, or sandbox for the built-in one"}
	}
	return text, nil
}

func testCodeOf(text string) (string, *flaw) {
	if !testCode.MatchString(text) {
		return "", &flaw{"is no test code", "write it as Events Manager shows it, such as TEST12345"}
	}
	return text, nil
}

// secretOf reads what travels in a header: visible characters and nothing else. An
// end of line, which files with a token often have, would break the request.
func secretOf(text string) (secret.Secret, *flaw) {
	switch {
	case text == "":
		return secret.Secret{}, &flaw{"is empty", "put in the secret, or set the variable that holds it"}
	case !visible.MatchString(text):
		return secret.Secret{}, &flaw{"holds blanks, ends of lines or characters beyond ASCII", "copy it again; it is one word"}
	}
	return secret.New(text), nil
}

func apiKeyOf(text string) (secret.Secret, *flaw) {
	s, f := secretOf(text)
	if f == nil && len(text) < minKey {
		f = &flaw{fmt.Sprintf("has %d characters, which can be guessed", len(text)), fmt.Sprintf("use at least %d random ones, such as openssl rand -hex 20 gives", minKey)}
	}
	return s, f
}
