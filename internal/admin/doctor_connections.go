package admin

import (
	"context"
	"sync"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/leadform"
)

// ConnectionReport is what the doctor found at a lead source or a CRM.
type ConnectionReport struct {
	Workspace string  `json:"workspace"`
	What      string  `json:"what"` // source, crm
	Name      string  `json:"name"`
	Kind      string  `json:"kind"`
	OK        bool    `json:"ok"`
	Checks    []Check `json:"checks"`
}

// connections looks at the sources and CRMs of workspaces, several at once. With
// repair set, CRMs get the custom fields that they lack.
func (a *Admin) connections(ctx context.Context, workspaces []*config.Workspace, repair bool) []ConnectionReport {
	var reports []ConnectionReport
	var checks []func(ctx context.Context) []Check
	for _, w := range workspaces {
		for _, s := range w.Sources {
			reports = append(reports, ConnectionReport{Workspace: w.Name, What: "source", Name: s.Name, Kind: s.Kind})
			checks = append(checks, func(ctx context.Context) []Check { return a.examineSource(ctx, w, s) })
		}
		for _, c := range w.CRMs {
			reports = append(reports, ConnectionReport{Workspace: w.Name, What: "crm", Name: c.Name, Kind: c.Kind})
			checks = append(checks, func(ctx context.Context) []Check { return a.examineCRM(ctx, w, c, repair) })
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, doctorAtOnce)
	for i := range checks {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
			defer cancel()
			reports[i].Checks = checks[i](ctx)
			reports[i].OK = true
			for _, c := range reports[i].Checks {
				reports[i].OK = reports[i].OK && (c.OK || c.Warning)
			}
		})
	}
	group.Wait()
	return reports
}

func (a *Admin) examineSource(ctx context.Context, w *config.Workspace, s *config.Source) []Check {
	kind, ok := a.c.Sources[s.Kind].(leadform.Checker)
	if !ok {
		return []Check{{Name: "address", OK: true, Sentence: "There is nothing to ask the platform; leads come to the source's own address."}}
	}
	source := leadform.Source{
		ID: s.ID, Workspace: w.ID, Kind: s.Kind, Name: s.Name, Country: w.Country, CreatedAt: s.CreatedAt, Options: s.Options,
	}
	if a.c.URL != nil && a.c.URL() != "" {
		source.Address = a.c.URL() + "/webhooks/" + s.Webhook
	}
	found := kind.Check(ctx, source)
	list := make([]Check, len(found))
	for i, c := range found {
		list[i] = Check(c)
	}
	return list
}

func (a *Admin) examineCRM(ctx context.Context, w *config.Workspace, c *config.CRM, repair bool) []Check {
	kind := a.c.CRMs[c.Kind]
	if kind == nil {
		return []Check{{Name: "settings", Sentence: "This build knows no CRM of kind " + c.Kind + ".", NextStep: "Take it out of the configuration."}}
	}
	found := kind.Check(ctx, a.c.Account(ctx, w, c), repair)
	list := make([]Check, len(found))
	for i, x := range found {
		list[i] = Check(x)
	}
	return list
}
