package meta

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/capiloop/capiloop/internal/leadform"
)

// checkHandshake does what Meta does before it sends leads to a callback: it asks the
// source's public address to repeat a challenge. Page "Webhooks: getting started",
// verification requests.
func (k *Kind) checkHandshake(ctx context.Context, s leadform.Source) leadform.Check {
	c := leadform.Check{Name: "handshake"}
	if s.Address == "" {
		c.Warning, c.Sentence = true, "It is not known at which address Meta reaches this server, so the handshake was not tried."
		c.NextStep = "Set public_url in the configuration."
		return c
	}
	place, _, _ := strings.Cut(s.Address, "/webhooks/") // the rest is a secret
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails, by its documentation
	challenge := hex.EncodeToString(random[:])
	answer, err := k.challenge(ctx, s, challenge)
	switch {
	case err != nil:
		c.Sentence = "Nobody answers at " + place + ": " + err.Error() + ". Meta could not confirm the callback either."
		c.NextStep = "Start the server, set public_url to the address that the internet reaches it by, and let the proxy pass /webhooks/ on."
	case answer != challenge:
		c.Sentence = "Something else than this source answers at " + place + "; Meta could not confirm the callback."
		c.NextStep = "Let the proxy pass /webhooks/ on as it comes, and check that public_url is this server's."
	default:
		c.OK, c.Sentence = true, "The source's address answers Meta's handshake."
	}
	return c
}

// challenge returns what the address answers. Its errors never hold the address: the
// verify token is in it.
func (k *Kind) challenge(ctx context.Context, s leadform.Source, challenge string) (string, error) {
	query := url.Values{"hub.mode": {"subscribe"}, "hub.verify_token": {s.Options.Secret("verify_token").Reveal()}, "hub.challenge": {challenge}}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Address+"?"+query.Encode(), nil)
	if err != nil {
		return "", errors.New("it is no address")
	}
	// Meta follows no redirect, so this does not either.
	client := &http.Client{Transport: k.config.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(q)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1024))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answers with status %d", res.StatusCode)
	}
	return string(body), nil
}
