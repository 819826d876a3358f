package meta

import (
	"context"
	"sync"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
)

// How long a Page's forms are remembered, how often they are read again at most for
// a form or an answer that is missing, and how many.
const (
	formsAge   = 10 * time.Minute
	formsPause = 30 * time.Second
	maxPages   = 256
	maxForms   = 2000 // of a Page
)

// forms remembers the questions of the Pages' forms, for every lead needs them.
type forms struct {
	mu    sync.Mutex
	pages map[pageKey]*pageForms
}

// pageKey: two sources never share, for each has a token of its own.
type pageKey struct {
	source int64
	page   string
}

type pageForms struct {
	turn chan struct{} // holds one value; who takes it may read from Graph

	mu   sync.Mutex
	byID map[string]capi.Form
	read time.Time // when it was last asked for, in vain or not
	err  error     // of that
}

func (f *forms) page(key pageKey) *pageForms {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p, ok := f.pages[key]; ok {
		return p
	}
	if len(f.pages) >= maxPages {
		for old := range f.pages { // any: it is only read again
			delete(f.pages, old)
			break
		}
	}
	p := &pageForms{turn: make(chan struct{}, 1)}
	p.turn <- struct{}{}
	f.pages[key] = p
	return p
}

// form returns a form with its questions; it has none if Graph does not list it.
// Meta's Reader cannot read a single form, so the Page's are read together.
func (k *Kind) form(ctx context.Context, r *capi.Reader, s leadform.Source, id string) (capi.Form, error) {
	p := k.forms.page(pageKey{s.ID, pageID(s)})
	if form, fresh, err := p.look(id); fresh {
		return form, err
	}
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return capi.Form{ID: id}, ctx.Err()
	}
	if form, fresh, err := p.look(id); fresh {
		return form, err // another lead has just asked
	}
	byID := make(map[string]capi.Form)
	var err error
	for form, e := range r.Forms(ctx, pageID(s)) {
		if e != nil {
			err = e
			break
		}
		if len(byID) < maxForms || form.ID == id {
			byID[form.ID] = form
		}
	}
	if ctx.Err() != nil {
		return capi.Form{ID: id}, ctx.Err()
	}
	p.keep(byID, err)
	form, _, err := p.look(id)
	return form, err
}

// look finds a form among those remembered. It is fresh if Graph need not be asked.
func (p *pageForms) look(id string) (form capi.Form, fresh bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.read)
	if form, ok := p.byID[id]; ok && age < formsAge {
		return form, true, nil
	}
	return capi.Form{ID: id}, age < formsPause, p.err
}

// keep remembers what was read; after an error the older forms stay.
func (p *pageForms) keep(byID map[string]capi.Form, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read, p.err = time.Now(), err
	if err == nil || p.byID == nil {
		p.byID = byID
	}
}
