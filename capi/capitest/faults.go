package capitest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Mode says how a fault shows.
type Mode string

// The modes of a Fault.
const (
	ModeError     Mode = "error"     // Graph's error of the code; the default
	ModeHTML      Mode = "html"      // an HTML page, as from a proxy; status 503 unless given
	ModeEmpty     Mode = "empty"     // nothing but the status; 502 unless given
	ModeHang      Mode = "hang"      // no answer until the client goes away or the fault is cleared
	ModeSlow      Mode = "slow"      // the right answer, after DelayMS; events are taken in even if the client has gone
	ModeReset     Mode = "reset"     // the events are stored, then the connection breaks without an answer
	ModeCut       Mode = "cut"       // the connection breaks before anything is stored
	ModePartial   Mode = "partial"   // 200, but only Received events are taken
	ModeLocalised Mode = "localised" // as error, with texts in French
	ModeBody      Mode = "body"      // Body as it is; status 500 unless given
	ModePoison    Mode = "poison"    // refuses a batch that holds an event with EventID
)

var modes = []Mode{ModeError, ModeHTML, ModeEmpty, ModeHang, ModeSlow, ModeReset, ModeCut, ModePartial, ModeLocalised, ModeBody, ModePoison}

// Fault makes the next requests go wrong.
type Fault struct {
	Mode     Mode   `json:"mode"`
	Code     int    `json:"code,omitempty"`    // Graph's code; 500 to 599 means a bare server error of that status
	Subcode  int    `json:"subcode,omitempty"` // error_subcode
	Status   int    `json:"status,omitempty"`  // HTTP status; 0 means the code's usual one
	Message  string `json:"message,omitempty"` // error.message; empty means the code's usual one
	Count    int    `json:"count,omitempty"`   // how many requests; 0 means until cleared
	Dataset  string `json:"dataset,omitempty"` // only calls of this node; empty means every call
	DelayMS  int    `json:"delay_ms,omitempty"`
	EventID  string `json:"event_id,omitempty"` // for poison
	Body     string `json:"body,omitempty"`     // for body
	Received int    `json:"received,omitempty"` // for partial: events_received, always smaller than what was sent
	Regain   int    `json:"regain_minutes,omitempty"`
}

// ActiveFault is a fault that waits for requests.
type ActiveFault struct {
	Fault
	Left int `json:"left"` // requests it will still meet; -1 means until cleared
	Hits int `json:"hits"` // requests it has met
}

type armed struct {
	fault      Fault
	left, hits int
}

type faultList struct {
	mu      sync.Mutex
	list    []*armed
	release chan struct{} // closed when the faults are cleared, which ends the hanging
	changed int           // grows with every change, so that a stream need not compare lists
}

func (l *faultList) version() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *faultList) init() { l.release = make(chan struct{}) }

// check fills in what a fault leaves open and says what is wrong with it.
func (f *Fault) check() error {
	if f.Mode == "" {
		f.Mode = ModeError
	}
	if !slices.Contains(modes, f.Mode) {
		return fmt.Errorf("mode %q is unknown; one of %v would be right", f.Mode, modes)
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return fmt.Errorf("status %d is no HTTP status of an answer", f.Status)
	}
	if f.Mode == ModePoison && f.EventID == "" {
		return errors.New("poison needs event_id")
	}
	if f.Count < 0 || f.DelayMS < 0 || f.Received < 0 {
		return errors.New("count, delay_ms and received must not be negative")
	}
	if f.Mode == ModePoison && f.Code == 0 {
		f.Code, f.Subcode = 100, 2804001
	}
	if f.Code == 0 {
		f.Code = 1
	}
	if f.Mode == ModeSlow && f.DelayMS == 0 {
		f.DelayMS = 2000
	}
	if f.Regain == 0 {
		f.Regain = 1
	}
	return nil
}

// Fault makes the next requests go wrong. Faults are used up in the order in which
// they were added. It panics on an unknown mode, which is the test's own mistake.
func (g *Graph) Fault(f Fault) {
	if err := f.check(); err != nil {
		panic("capitest: " + err.Error())
	}
	g.faults.add(f)
}

func (l *faultList) add(f Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := f.Count
	if left == 0 {
		left = -1
	}
	l.changed++
	l.list = append(l.list, &armed{fault: f, left: left})
}

// ClearFaults removes all faults and lets go of requests that hang.
func (g *Graph) ClearFaults() {
	l := &g.faults
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed++
	l.list = nil
	close(l.release)
	l.release = make(chan struct{})
}

// Faults lists the faults that wait for requests.
func (g *Graph) Faults() []ActiveFault {
	l := &g.faults
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]ActiveFault, 0, len(l.list))
	for _, a := range l.list {
		all = append(all, ActiveFault{a.fault, a.left, a.hits})
	}
	return all
}

// take returns the fault that this request meets, and those that will look at its
// events. The header X-Sandbox-Fault comes before the list.
func (l *faultList) take(r *http.Request, target string, events bool) (*Fault, []*armed, *graphError) {
	if h := r.Header.Get("X-Sandbox-Fault"); h != "" {
		f, err := parseFault(h)
		if err != nil {
			return nil, nil, parameter("X-Sandbox-Fault: " + err.Error())
		}
		return &f, nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var poisons []*armed
	for _, a := range l.list {
		switch {
		case a.fault.Dataset != "" && a.fault.Dataset != target:
		case a.fault.Mode == ModePoison:
			if events {
				poisons = append(poisons, a)
			}
		case !events && (a.fault.Mode == ModeReset || a.fault.Mode == ModePartial):
		default:
			f := a.fault
			l.use(a)
			return &f, poisons, nil
		}
	}
	return nil, poisons, nil
}

// use counts a hit and removes the fault once it is used up.
func (l *faultList) use(a *armed) {
	a.hits++
	l.changed++
	if a.left > 0 {
		if a.left--; a.left == 0 {
			l.list = slices.DeleteFunc(l.list, func(o *armed) bool { return o == a })
		}
	}
}

// parseFault reads "190", "190/463", "hang", "slow:1500".
func parseFault(s string) (Fault, error) {
	var f Fault
	head, tail, found := strings.Cut(s, "/")
	if n, err := strconv.Atoi(head); err == nil {
		f.Code = n
		if found {
			if f.Subcode, err = strconv.Atoi(tail); err != nil {
				return f, fmt.Errorf("%q is no code/subcode", s)
			}
		}
		return f, f.check()
	}
	mode, delay, found := strings.Cut(s, ":")
	f.Mode = Mode(mode)
	if found {
		n, err := strconv.Atoi(delay)
		if err != nil {
			return f, fmt.Errorf("%q is no mode:milliseconds", s)
		}
		f.DelayMS = n
	}
	return f, f.check()
}

// err is the answer of a fault that answers with an error.
func (f *Fault) err() *graphError {
	var e *graphError
	if f.Code >= 500 && f.Code <= 599 {
		code := 2
		if f.Code == http.StatusInternalServerError {
			code = 1
		}
		e = errorFor(code, f.Subcode)
		e.Status = f.Code
	} else {
		e = errorFor(f.Code, f.Subcode, orElse(f.Dataset, "0"))
	}
	if f.Status != 0 {
		e.Status = f.Status
	}
	if f.Message != "" {
		e.Message = f.Message
	}
	e.Regain = f.Regain
	if f.Mode == ModeLocalised {
		e.localise()
	}
	return e
}

// localise puts the texts into French. Meta translates error_user_title and
// error_user_msg by the account's language; code and subcode stay.
func (e *graphError) localise() {
	french := map[int][2]string{
		2804003: {"Horodatage de l’évènement trop ancien", "L’horodatage de cet évènement remonte à trop longtemps. Envoyez les évènements dans les 7 jours."},
		2804009: {"Valeur manquante pour l’évènement d’achat", "Votre évènement d’achat ne comporte pas de paramètre de valeur."},
		2804016: {"Paramètre utilisateur non haché", "Un paramètre n’est pas haché. Vous devez hacher tous les paramètres utilisateur."},
		2804036: {"ID de prospect non valide", "Un ou plusieurs ID de prospect sont non valides ou supprimés."},
		2804050: {"Informations client insuffisantes", "Cet évènement ne contient pas suffisamment de paramètres d’informations client."},
	}
	t, ok := french[e.Subcode]
	if !ok {
		t = [2]string{"Une erreur est survenue", "Votre demande n’a pas pu être traitée. Veuillez réessayer plus tard."}
	}
	e.Title, e.UserMessage = t[0], t[1]
	if e.Code == 100 {
		e.Message = "Paramètre non valide"
	}
}

// faultBefore does what a fault does before the call is looked at. False means
// that the call is over.
func (g *Graph) faultBefore(q *request, events bool) bool {
	if events {
		g.mu.Lock()
		g.requests.Faults++
		g.mu.Unlock()
	}
	f := q.fault
	switch f.Mode {
	case ModeError, ModeLocalised:
		e := f.err()
		if events {
			g.noteRefusal(e)
		}
		e.write(q.w)
	case ModeHTML:
		q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		q.w.WriteHeader(orZero(f.Status, http.StatusServiceUnavailable))
		_, _ = q.w.Write([]byte("<!DOCTYPE html><html><head><title>Facebook | Error</title></head><body><h1>Sorry, something went wrong.</h1></body></html>"))
	case ModeBody:
		q.w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		q.w.Header().Set("X-Content-Type-Options", "nosniff")
		q.w.WriteHeader(orZero(f.Status, http.StatusInternalServerError))
		_, _ = q.w.Write([]byte(f.Body))
	case ModeEmpty:
		q.w.WriteHeader(orZero(f.Status, http.StatusBadGateway))
	case ModeHang:
		g.wait(q.r, 0)
		panic(http.ErrAbortHandler)
	case ModeCut:
		panic(http.ErrAbortHandler)
	case ModeSlow:
		// The call goes on although its client may have given up: that is how a
		// time-out leaves open whether the events were taken in.
		g.wait(q.r, time.Duration(f.DelayMS)*time.Millisecond)
		return true
	default: // reset, partial, poison: they need the events
		return true
	}
	return false
}

// wait waits for d, or for ever if d is 0, but no longer than the client waits and
// the faults stand.
func (g *Graph) wait(r *http.Request, d time.Duration) {
	g.faults.mu.Lock()
	release := g.faults.release
	g.faults.mu.Unlock()
	var passed <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-passed:
	case <-release:
	case <-r.Context().Done():
	}
}

// poisoned refuses a batch that holds a poisoned event.
func (g *Graph) poisoned(q *request, events []event) *graphError {
	for _, a := range q.poisons {
		for i := range events {
			if string(events[i].id) != a.fault.EventID {
				continue
			}
			g.faults.mu.Lock()
			g.faults.use(a)
			g.faults.mu.Unlock()
			g.mu.Lock()
			g.requests.Faults++
			g.mu.Unlock()
			return a.fault.err()
		}
	}
	return nil
}

// reset breaks the connection with a TCP reset where it can, otherwise by closing it.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // without it the client would see an orderly end
		}
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

func orZero(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}
