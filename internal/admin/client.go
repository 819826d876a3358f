package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Client does the actions at a running server, through its socket.
type Client struct {
	path string
	http *http.Client
}

var _ Actions = (*Client)(nil)

// NewClient returns a client for the socket at path. It connects when it is used; if
// no server listens there, the actions fail with Unavailable.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) get(ctx context.Context, by Actor, path, ws string, q url.Values, into any) error {
	if q == nil {
		q = url.Values{}
	}
	q.Set("workspace", ws)
	return c.do(ctx, by, http.MethodGet, path+"?"+q.Encode(), nil, into)
}

func (c *Client) post(ctx context.Context, by Actor, path, ws string, q request, into any) error {
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	return c.do(ctx, by, http.MethodPost, path+"?"+url.Values{"workspace": {ws}}.Encode(), body, into)
}

func (c *Client) do(ctx context.Context, by Actor, method, target string, body []byte, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://capiloop"+target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	r.Header.Set(headerActor, by.Name)
	r.Header.Set(headerRight, by.Right.String())
	res, err := c.http.Do(r)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return &Error{Code: Unavailable, Message: "No server listens at " + c.path + ".", Fix: "Start it (capiloop serve), or name its folder with --data."}
	}
	if errors.Is(err, syscall.EACCES) {
		return &Error{Code: Unavailable, Message: "You may not open " + c.path + ".", Fix: "Run this as the user that runs the server."}
	}
	if err != nil {
		return fmt.Errorf("ask the server: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		var answer struct {
			Error *Error `json:"error"`
		}
		if err := json.NewDecoder(io.LimitReader(res.Body, maxSocketBody)).Decode(&answer); err != nil || answer.Error == nil {
			return fmt.Errorf("ask the server: it answered %s; is it of the same version as this command?", res.Status)
		}
		return answer.Error
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

// Event is Actions.Event at the server.
func (c *Client) Event(ctx context.Context, by Actor, ws string, id ledger.ID) (*Event, error) {
	return c.EventByText(ctx, by, ws, id.String())
}

// EventByText is Actions.EventByText at the server.
func (c *Client) EventByText(ctx context.Context, by Actor, ws, id string) (*Event, error) {
	e := &Event{}
	if err := c.get(ctx, by, "/event", ws, url.Values{"id": {id}}, e); err != nil {
		return nil, err
	}
	return e, nil
}

// Latest is Actions.Latest at the server.
func (c *Client) Latest(ctx context.Context, by Actor, ws string, limit int) ([]*Event, error) {
	var list []*Event
	err := c.get(ctx, by, "/events", ws, url.Values{"limit": {strconv.Itoa(limit)}}, &list)
	return list, err
}

// Ledger is Actions.Ledger at the server.
func (c *Client) Ledger(ctx context.Context, by Actor, ws string, q LedgerQuery) (*Ledger, error) {
	l := &Ledger{}
	values := url.Values{"from": {q.From}, "to": {q.To}, "source": {q.Source}, "destination": {q.Destination}, "event": {q.Event}}
	if err := c.get(ctx, by, "/ledger", ws, values, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Findings is Actions.Findings at the server.
func (c *Client) Findings(ctx context.Context, by Actor, ws string) ([]Finding, error) {
	var list []Finding
	err := c.get(ctx, by, "/findings", ws, nil, &list)
	return list, err
}

// Destinations is Actions.Destinations at the server.
func (c *Client) Destinations(ctx context.Context, by Actor, ws string) ([]Destination, error) {
	var list []Destination
	err := c.get(ctx, by, "/destinations", ws, nil, &list)
	return list, err
}

func (c *Client) count(ctx context.Context, by Actor, path, ws string, f Filter) (int, error) {
	var n counted
	err := c.post(ctx, by, path, ws, request{Filter: f}, &n)
	return n.Count, err
}

// Retry is Actions.Retry at the server.
func (c *Client) Retry(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
	return c.count(ctx, by, "/retry", ws, f)
}

// Release is Actions.Release at the server.
func (c *Client) Release(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
	return c.count(ctx, by, "/release", ws, f)
}

// Drop is Actions.Drop at the server.
func (c *Client) Drop(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
	return c.count(ctx, by, "/drop", ws, f)
}

// SkipRemoved is Actions.SkipRemoved at the server.
func (c *Client) SkipRemoved(ctx context.Context, by Actor, ws, destination string) (int, error) {
	return c.count(ctx, by, "/skip-removed", ws, Filter{Destination: destination})
}

// TryNow is Actions.TryNow at the server.
func (c *Client) TryNow(ctx context.Context, by Actor, ws, destination string) error {
	_, err := c.count(ctx, by, "/try-now", ws, Filter{Destination: destination})
	return err
}

// Backup is Actions.Backup at the server, which writes the file.
func (c *Client) Backup(ctx context.Context, by Actor, file string) error {
	return c.post(ctx, by, "/backup", "", request{File: file}, &counted{})
}

// Doctor is Actions.Doctor at the server.
func (c *Client) Doctor(ctx context.Context, by Actor, ws string, o DoctorOptions) (*Report, error) {
	r := &Report{}
	if err := c.post(ctx, by, "/doctor", ws, request{Options: o}, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Sources is Actions.Sources at the server.
func (c *Client) Sources(ctx context.Context, by Actor, ws string) ([]Source, error) {
	var list []Source
	err := c.get(ctx, by, "/sources", ws, nil, &list)
	return list, err
}

// RotateMasterKey is Actions.RotateMasterKey at the server.
func (c *Client) RotateMasterKey(ctx context.Context, by Actor) (*Rotation, error) {
	r := &Rotation{}
	if err := c.post(ctx, by, "/rotate-master-key", "", request{}, r); err != nil {
		return nil, err
	}
	return r, nil
}

// CreateAPIKey is Actions.CreateAPIKey at the server.
func (c *Client) CreateAPIKey(ctx context.Context, by Actor, ws, name string) (*NewKey, error) {
	k := &NewKey{}
	if err := c.post(ctx, by, "/keys", ws, request{Name: name}, k); err != nil {
		return nil, err
	}
	return k, nil
}
