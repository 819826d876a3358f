package capi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

// keys holds what must never be printed, and removes it from texts of others.
type keys struct {
	token    string
	proof    string // appsecret_proof, "" without an app secret
	replacer *strings.Replacer
}

// hidden stands where a secret stood.
const hidden = "***"

// tokenPattern catches tokens that are not ours: Meta's begin with EAA, and an
// address may carry one as a parameter.
var tokenPattern = regexp.MustCompile(`EAA[0-9A-Za-z]{16,}|((?:access_token|input_token|appsecret_proof)=)[^&\s"'<>]+`)

func newKeys(token, appSecret string) *keys {
	k := &keys{token: token}
	if appSecret != "" && token != "" {
		mac := hmac.New(sha256.New, []byte(appSecret))
		mac.Write([]byte(token))
		k.proof = hex.EncodeToString(mac.Sum(nil))
	}
	k.replacer = replacerOf(token, appSecret, k.proof)
	return k
}

// replacerOf finds secrets as they are, in an address and in JSON.
func replacerOf(secrets ...string) *strings.Replacer {
	var pairs []string
	for _, s := range secrets {
		if len(s) < 4 { // no secret is that short, and every "a" of a text would go
			continue
		}
		quoted := appendText(nil, s)
		for _, form := range []string{
			s, url.QueryEscape(s), url.PathEscape(s), string(quoted[1 : len(quoted)-1]),
			strings.ReplaceAll(s, "/", `\/`), // as PHP writes JSON
		} {
			pairs = append(pairs, form, hidden)
		}
		if _, secret, ok := strings.Cut(s, "|"); ok && len(secret) >= 4 { // an app's token: id|secret
			pairs = append(pairs, secret, hidden)
		}
	}
	return strings.NewReplacer(pairs...)
}

// scrub removes every secret from a text.
func (k *keys) scrub(s string) string {
	if s == "" {
		return s
	}
	return tokenPattern.ReplaceAllString(k.replacer.Replace(s), "${1}"+hidden)
}

// clean scrubs every text of an error and cuts the excerpt, in this order: a
// secret that is cut in two would not be found.
func (k *keys) clean(e *APIError) {
	for _, s := range []*string{&e.Type, &e.Message, &e.UserTitle, &e.UserMessage, &e.FBTraceID, &e.Body} {
		*s = k.scrub(*s)
	}
	for i, f := range e.BlameFields {
		e.BlameFields[i] = k.scrub(f)
	}
	e.Body = excerpt(e.Body)
}

// excerpt cuts a text to what an error may carry, at the end of a character.
func excerpt(s string) string {
	const most = 512
	s = strings.ToValidUTF8(s[:min(len(s), 4*most)], "\uFFFD")
	if len(s) <= most {
		return s
	}
	end := most
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
