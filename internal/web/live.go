package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	liveEvery   = time.Second
	liveAlive   = 15 * time.Second // a comment now and then, or a proxy closes the line
	liveTimeout = 10 * time.Second // for one write
	maxStreams  = 32
)

// live is what the open streams share: the book is made once for all of them.
type live struct {
	slots chan struct{}
	done  chan struct{}
	cache *liveCache
}

type liveCache struct {
	mu   sync.Mutex
	at   time.Time
	html string
	err  error
}

func newLive() live {
	return live{slots: make(chan struct{}, maxStreams), done: make(chan struct{}), cache: &liveCache{}}
}

func (h *Handler) streamBook(w http.ResponseWriter, r *http.Request) {
	h.stream(w, r, h.bookParts)
}

// bookParts makes the book's parts, at most once a second however many look on.
func (h *Handler) bookParts(ctx context.Context) (string, error) {
	c := h.live.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < liveEvery*9/10 {
		return c.html, c.err
	}
	// Others wait for this too, so that it must not end with one reader's patience.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), liveTimeout)
	defer cancel()
	v, err := h.book(ctx)
	if err == nil {
		c.html, err = h.parts(frame{Book: v})
	}
	c.err, c.at = err, time.Now()
	return c.html, c.err
}

func (h *Handler) streamEvent(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	h.stream(w, r, func(ctx context.Context) (string, error) {
		e, err := h.c.Actions.EventByText(ctx, h.by, h.c.Workspace, id)
		if err != nil {
			return "", err
		}
		return h.parts(frame{Event: h.words.eventView(e)})
	})
}

func (h *Handler) parts(f frame) (string, error) {
	var b bytes.Buffer
	err := h.pages.ExecuteTemplate(&b, "live", f)
	return b.String(), err
}

// stream sends the parts whenever they changed, until the reader leaves or the
// handler is closed. One that cannot be made is left out: the next one may be.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, render func(context.Context) (string, error)) {
	select {
	case h.live.slots <- struct{}{}:
		defer func() { <-h.live.slots }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
		return
	}
	last, err := render(r.Context())
	if err != nil {
		h.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	line := http.NewResponseController(w)
	if !send(line, w, "retry: 2000\n"+message(last)) {
		return
	}
	ticks := time.NewTicker(liveEvery)
	defer ticks.Stop()
	alive := time.Now()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-h.live.done:
			return
		case <-ticks.C:
		}
		text := ""
		if html, err := render(r.Context()); err == nil && html != last {
			last, text = html, message(html)
		} else if time.Since(alive) >= liveAlive {
			text = ":\n\n"
		}
		if text == "" {
			continue
		}
		if alive = time.Now(); !send(line, w, text) {
			return
		}
	}
}

// send writes within a time of its own: a server's limit for whole answers does not
// fit a stream. Not every writer knows deadlines; then there is none.
func send(line *http.ResponseController, w http.ResponseWriter, text string) bool {
	_ = line.SetWriteDeadline(time.Now().Add(liveTimeout))
	if _, err := w.Write([]byte(text)); err != nil {
		return false
	}
	return line.Flush() == nil
}

var returns = strings.NewReplacer("\r", "&#13;")

// message packs HTML into a server-sent event. A carriage return would end a line
// there as well, and what follows could pass for a field of the protocol.
func message(html string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(returns.Replace(html), "\n") {
		b.WriteString("data: ")
		b.WriteString(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return b.String()
}
