package capitest

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// Lead is a lead of an instant form.
type Lead struct {
	ID           string    `json:"id"` // 15 to 17 digits; AddLead makes one if it is empty
	FormID       string    `json:"form_id"`
	PageID       string    `json:"page_id"`
	AdID         string    `json:"ad_id,omitempty"` // none for organic and test leads
	AdName       string    `json:"ad_name,omitempty"`
	AdSetID      string    `json:"adset_id,omitempty"`
	AdSetName    string    `json:"adset_name,omitempty"`
	CampaignID   string    `json:"campaign_id,omitempty"`
	CampaignName string    `json:"campaign_name,omitempty"`
	Created      time.Time `json:"created,omitzero"` // zero means now
	Fields       []Field   `json:"field_data"`
	Disclaimers  []Box     `json:"custom_disclaimer_responses,omitempty"`
	Platform     string    `json:"platform,omitempty"` // fb or ig; empty means fb
	Test         bool      `json:"test,omitempty"`
}

// Field is one answer of a lead. The names are the form's own.
type Field struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Box is a check box of a lead's form; Graph writes "1" or "" for it.
type Box struct {
	Key     string `json:"checkbox_key"`
	Checked string `json:"is_checked"`
}

// Form is an instant form of a page.
type Form struct {
	ID, PageID, Name string
	Status           string // ACTIVE unless said
	Locale           string // en_US unless said
	Questions        []string
}

type leadState uint8

const (
	leadUnknown leadState = iota
	leadKnown
	leadDeleted
)

// leadStore holds leads and forms in the order in which they came.
type leadStore struct {
	mu            sync.RWMutex
	byID          map[int64]int // index into leads
	leads         []Lead
	deleted       map[int64]bool
	forms         []Form
	nextID        int64
	subscriptions map[string]bool // page ids
}

func (s *leadStore) init() {
	s.subscriptions = map[string]bool{}
	s.byID, s.deleted, s.nextID = map[int64]int{}, map[int64]bool{}, 1_300_000_000_000_001
}

// created tells when a lead was made, Unix seconds.
func (s *leadStore) created(id int64) (int64, leadState) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if i, ok := s.byID[id]; ok {
		if s.deleted[id] {
			return 0, leadDeleted
		}
		return s.leads[i].Created.Unix(), leadKnown
	}
	return 0, leadUnknown
}

func (s *leadStore) find(id int64) (Lead, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, ok := s.byID[id]
	if !ok || s.deleted[id] {
		return Lead{}, false
	}
	return s.leads[i], true
}

func (s *leadStore) hasForm(id string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.form(id) != nil
}

func (s *leadStore) form(id string) *Form {
	for i := range s.forms {
		if s.forms[i].ID == id {
			return &s.forms[i]
		}
	}
	return nil
}

// AddForm adds a form, or replaces the one with its id.
func (g *Graph) AddForm(f Form) {
	s := &g.leads
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.form(f.ID); old != nil {
		*old = f
		return
	}
	s.forms = append(s.forms, f)
}

// AddLead adds a lead and returns its id. A form that is not known yet is made;
// without a page the form's page is taken. It panics if the id is not 15 to 17
// digits, which is the test's own mistake.
func (g *Graph) AddLead(l Lead) string {
	s := &g.leads
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.ID == "" {
		for taken := true; taken; _, taken = s.byID[s.nextID] {
			s.nextID++
		}
		l.ID = strconv.FormatInt(s.nextID, 10)
	}
	if !leadID(l.ID) {
		panic("capitest: a lead id has 15 to 17 digits")
	}
	id, _ := digits([]byte(l.ID))
	l.FormID = orElse(l.FormID, "3000000000000001")
	if f := s.form(l.FormID); f == nil {
		l.PageID = orElse(l.PageID, "100000000000001")
		s.forms = append(s.forms, Form{ID: l.FormID, PageID: l.PageID, Name: "Form " + l.FormID})
	} else {
		l.PageID = orElse(l.PageID, f.PageID)
	}
	if l.Created.IsZero() {
		l.Created = g.now()
	}
	delete(s.deleted, id)
	if i, ok := s.byID[id]; ok {
		s.leads[i] = l
		return l.ID
	}
	s.byID[id] = len(s.leads)
	s.leads = append(s.leads, l)
	return l.ID
}

func leadID(s string) bool {
	_, ok := digits([]byte(s))
	return ok && len(s) >= 15 && len(s) <= 17
}

// DeleteLead deletes a lead: reads answer 100/33, events with its id 100/2804036.
// It reports whether there was one.
func (g *Graph) DeleteLead(id string) bool {
	n, _ := digits([]byte(id))
	s := &g.leads
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.byID[n]; !ok || s.deleted[n] {
		return false
	}
	s.deleted[n] = true
	return true
}

// selected returns a form's or ad's leads that pass the test, newest first, with
// the positions that cursors are made of.
func (s *leadStore) selected(want func(int, *Lead) bool) ([]Lead, []int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var at []int
	for i := range s.leads {
		if n, _ := digits([]byte(s.leads[i].ID)); !s.deleted[n] && want(i, &s.leads[i]) {
			at = append(at, i)
		}
	}
	// Newest first; leads of one second in the order of their arrival, so that a
	// cursor always means the same place.
	slices.SortFunc(at, func(a, b int) int {
		if d := s.leads[b].Created.Unix() - s.leads[a].Created.Unix(); d != 0 {
			return int(d)
		}
		return b - a
	})
	leads := make([]Lead, len(at))
	for i, p := range at {
		leads[i] = s.leads[p]
	}
	return leads, at
}
