package capi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// The defaults of Config, and what one request may hold. Page "Using the API".
const (
	DefaultBaseURL = "https://graph.facebook.com"
	DefaultVersion = "v26.0"
	DefaultTimeout = 30 * time.Second // Meta suggests 1.5 s, but each early end leaves open whether it counted

	MaxBatchEvents = 1000
	MaxBatchBytes  = 1 << 20 // not documented; more is said to be refused
)

// ErrBatchSize is returned by Send for a batch without events or with more than
// MaxBatchEvents.
var ErrBatchSize = fmt.Errorf("a batch holds 1 to %d events", MaxBatchEvents)

// Config says where Graph is and how to get in. Events may keep an old version
// for two years, reads of the Marketing API (leads' ad names, dataset quality) must
// follow its shorter schedule: give Client and Reader versions of their own.
type Config struct {
	BaseURL    string        // DefaultBaseURL if empty
	Version    string        // DefaultVersion if empty
	Token      string        `json:"-"` // travels in the Authorization header only
	AppSecret  string        `json:"-"` // if given, requests carry appsecret_proof
	Timeout    time.Duration // of one request, the reading of its answer included; DefaultTimeout if 0
	HTTPClient *http.Client  // its transport is used; redirects are never followed
}

// String shows the settings without the secrets.
func (c Config) String() string { return "capi.Config{" + c.BaseURL + " " + c.Version + "}" }

// GoString shows the same as String.
func (c Config) GoString() string { return c.String() }

// LogValue keeps the secrets out of logs.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Client sends events to the Conversions API. It is safe for concurrent use and
// never tries a request again by itself: that is for who keeps the events.
type Client struct{ g *graph }

// NewClient returns a client, or an error if the settings cannot work.
func NewClient(c Config) (*Client, error) {
	if c.Token == "" {
		return nil, errors.New("the access token is missing: generate one in Events Manager (dataset, Settings, Conversions API)")
	}
	g, err := newGraph(c)
	if err != nil {
		return nil, err
	}
	return &Client{g}, nil
}

// Batch is what one request carries. Meta takes or refuses it as a whole.
type Batch struct {
	// Events are encoded events (Event.AppendJSON), which travel byte for byte.
	Events []json.RawMessage
	// TestEventCode shows the events in Events Manager under "Test events"; they count
	// nevertheless.
	TestEventCode string
	PartnerAgent  string // less than 23 characters, at least two of them letters
	UploadTag     string // for offline uploads
}

// Result is Meta's answer to a batch that it took.
type Result struct {
	// EventsReceived counts the accepted events. Fewer than were sent is no error of
	// Send: compare.
	EventsReceived int
	Messages       []string
	FBTraceID      string
	Usage          Usage
	Date           time.Time // Meta's clock, zero if not told
}

// Send posts a batch to a dataset. Any failure but ErrBatchSize is an *APIError,
// whose Class says what becomes of the events.
func (c *Client) Send(ctx context.Context, datasetID string, b Batch) (Result, error) {
	if len(b.Events) == 0 || len(b.Events) > MaxBatchEvents {
		return Result{}, ErrBatchSize
	}
	if !isGraphID(datasetID) {
		return Result{}, refusedHere("the dataset's id is not a number")
	}
	r, err := c.g.do(ctx, call{method: http.MethodPost, path: datasetID + "/events", body: b.body(c.g.keys.proof)})
	if err != nil {
		return Result{}, err
	}
	return decodeSent(r), nil
}

// body joins the payloads without touching them, in one allocation: what is
// stored and shown as sent is what leaves.
func (b *Batch) body(proof string) []byte {
	size := 128 + len(proof) + 2*(len(b.TestEventCode)+len(b.PartnerAgent)+len(b.UploadTag))
	for _, e := range b.Events {
		size += len(e) + 1
	}
	dst := append(make([]byte, 0, size), `{"data":[`...)
	for i, e := range b.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e...)
	}
	dst = append(dst, ']')
	for _, f := range [...]struct{ name, value string }{
		{"partner_agent", b.PartnerAgent},
		{"test_event_code", b.TestEventCode},
		{"upload_tag", b.UploadTag},
		{"appsecret_proof", proof},
	} {
		if f.value == "" {
			continue
		}
		dst = append(append(append(dst, ',', '"'), f.name...), '"', ':')
		dst = appendText(dst, f.value)
	}
	return append(dst, '}')
}

// refusedHere is an error about the settings, found before anything left.
func refusedHere(message string) *APIError { return &APIError{Class: ClassAccess, Message: message} }

// isGraphID keeps anything but an id out of the path of an address.
func isGraphID(id string) bool {
	if id == "" || len(id) > 32 {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return id[0] != '_'
}
