package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/capiloop/capiloop/capi"
)

// The floors are what a part costs that nobody can leave out. Each runs in its own
// process, as what it is compared with does: this program starts itself with -role.

func runRole(ctx context.Context, role, addr, file string, rows, group int, wide bool) error {
	debug.SetGCPercent(300) // as the product has it
	switch role {
	case "append":
		return serveFloor(ctx, addr, appendLog(file, nil))
	case "encode":
		return serveFloor(ctx, addr, appendLog(file, encodeOne))
	case "decode":
		return serveFloor(ctx, addr, http.HandlerFunc(decodeOnly))
	case "sqlite":
		return rawSQLite(ctx, file, rows, group, wide)
	}
	return fmt.Errorf("-role %s: %w", role, flag.ErrHelp)
}

func serveFloor(ctx context.Context, addr string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type line struct {
	raw  []byte
	done chan error
}

// appendLog is the least that a durable intake can do: read the body, append it to a
// file, sync the file once for all that wait, answer 202. With encode, the events are
// first made into what is sent to Meta, as the product does.
func appendLog(file string, encode func(raw []byte) ([]byte, error)) http.Handler {
	queue := make(chan line, 4096)
	go writeLog(file, queue)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		raw, err := readBody(r)
		if err == nil && encode != nil {
			raw, err = encode(raw)
		}
		if err == nil {
			done := make(chan error, 1)
			queue <- line{raw, done}
			err = <-done
		}
		answer(w, err)
	})
}

// encodeOne reads, normalises, hashes and writes the one event of a request.
func encodeOne(raw []byte) ([]byte, error) {
	var e capi.Event
	if err := e.UnmarshalJSON(raw); err != nil {
		return nil, err
	}
	_ = e.Normalise(capi.Locale{Country: "US", Now: time.Now()})
	return e.AppendJSON(nil), nil
}

func readBody(r *http.Request) ([]byte, error) {
	raw := make([]byte, max(r.ContentLength, 0))
	_, err := io.ReadFull(r.Body, raw)
	return raw, err
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(`{"accepted":1}`))
}

func writeLog(file string, queue <-chan line) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	var group []line
	var buf []byte
	for first := range queue {
		group, buf = append(group[:0], first), append(buf[:0], first.raw...)
	gather:
		for len(group) < 1000 {
			select {
			case l := <-queue:
				group, buf = append(group, l), append(buf, l.raw...)
			default:
				break gather
			}
		}
		if err == nil {
			_, err = f.Write(buf)
		}
		if err == nil {
			err = syncData(f)
		}
		for _, l := range group {
			l.done <- err
		}
	}
}

// decodeOnly is the HTTP server with the JSON read into typed events, and no store.
func decodeOnly(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		return
	}
	raw, err := readBody(r)
	if err == nil {
		var one plainEvent
		err = json.Unmarshal(raw, &one)
	}
	answer(w, err)
}

// plainEvent is an event for encoding/json, without any of our tolerance.
type plainEvent struct {
	Data       []plainEvent    `json:"data"`
	EventName  string          `json:"event_name"`
	EventTime  int64           `json:"event_time"`
	EventID    string          `json:"event_id"`
	Source     string          `json:"action_source"`
	URL        string          `json:"event_source_url"`
	UserData   plainPerson     `json:"user_data"`
	CustomData json.RawMessage `json:"custom_data"`
}

type plainPerson struct {
	Email      []string `json:"em"`
	Phone      []string `json:"ph"`
	FirstName  []string `json:"fn"`
	LastName   []string `json:"ln"`
	Gender     []string `json:"ge"`
	BirthDate  []string `json:"db"`
	City       []string `json:"ct"`
	State      []string `json:"st"`
	Zip        []string `json:"zp"`
	Country    []string `json:"country"`
	ExternalID []string `json:"external_id"`
	Address    string   `json:"client_ip_address"`
	Agent      string   `json:"client_user_agent"`
	FBC        string   `json:"fbc"`
	FBP        string   `json:"fbp"`
}

// normaliseCost is normalising and hashing the event's eleven fields, in
// microseconds an event, on one goroutine: the best of twenty tries, for what others
// do on the machine only makes it slower.
func normaliseCost() (float64, error) {
	req := newRequest("/", "", 1)
	req.next()
	var read capi.Event
	if err := read.UnmarshalJSON(req.raw[len(req.raw)-eventSize():]); err != nil {
		return 0, err
	}
	l := capi.Locale{Country: "US", Now: time.Now()}
	const n = 1000
	best := time.Hour
	for range 20 {
		began := time.Now()
		for range n {
			e := read
			_ = e.Normalise(l)
		}
		best = min(best, time.Since(began))
	}
	return float64(best.Nanoseconds()) / n / 1000, nil
}
