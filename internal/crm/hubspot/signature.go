package hubspot

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
)

// maxSkew is how old, or how far ahead, a signed request may be.
const maxSkew = 5 * time.Minute

// decoded are the only escapes that HubSpot undoes in the address before it signs it.
var decoded = strings.NewReplacer(
	"%3A", ":", "%3a", ":", "%2F", "/", "%2f", "/", "%3F", "?", "%3f", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(",
	"%29", ")", "%2A", "*", "%2a", "*", "%2C", ",", "%2c", ",", "%3B", ";", "%3b", ";",
)

// hookSecret is the client secret of the app that sends webhooks. It need not be the app
// by which calls are made: a service key carries no webhooks.
func hookSecret(a crm.Account) string {
	if s := a.Options.Text("webhook_secret"); s != "" {
		return s
	}
	return a.Options.Text("client_secret")
}

// genuine tells whether HubSpot has signed the request. Where there is a signature of
// version 3, it alone counts: the older ones have no time in them.
func genuine(r crm.Incoming, key string, now time.Time) bool {
	if key == "" {
		return false
	}
	if given := r.Header.Get("X-Hubspot-Signature-V3"); given != "" {
		return genuineV3(r, key, given, now)
	}
	// Versions 1 and 2 are bare hashes with the secret in front, which can be carried on
	// without knowing it; but what is carried on ends in padding, which is no JSON.
	given, err := hex.DecodeString(r.Header.Get("X-Hubspot-Signature"))
	if err != nil || len(given) != sha256.Size {
		return false
	}
	switch r.Header.Get("X-Hubspot-Signature-Version") {
	case "v1":
		return hmac.Equal(given, digest(key, string(r.Body)))
	case "v2":
		// It is not written down whether the escapes are undone here, too.
		asSent := hmac.Equal(given, digest(key, r.Method, r.URL, string(r.Body)))
		undone := hmac.Equal(given, digest(key, r.Method, decoded.Replace(r.URL), string(r.Body)))
		return asSent || undone
	}
	return false
}

func genuineV3(r crm.Incoming, key, signature string, now time.Time) bool {
	stamp := r.Header.Get("X-Hubspot-Request-Timestamp")
	ms, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || ms <= 0 {
		return false
	}
	if age := now.UnixMilli() - ms; age > maxSkew.Milliseconds() || age < -maxSkew.Milliseconds() {
		return false
	}
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(key))
	for _, part := range []string{r.Method, decoded.Replace(r.URL), string(r.Body), stamp} {
		_, _ = mac.Write([]byte(part))
	}
	return hmac.Equal(given, mac.Sum(nil))
}

func digest(parts ...string) []byte {
	sum := sha256.Sum256([]byte(strings.Join(parts, "")))
	return sum[:]
}
