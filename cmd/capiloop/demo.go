package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/app"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

func newDemo() *cobra.Command {
	d := &demo{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show everything on this machine, without a Meta account",
		Long: `Starts the gateway with stand-ins for Meta and for a CRM, and replays a driving
school's week within half a minute: people fill in forms, leads go into the CRM,
the manager moves their cards, and what that means goes back to Meta. Some of it is
broken on purpose. Two pages show it while it happens; then a new lead comes every
few seconds, until you stop it.

Nothing leaves this machine; the data lies in a temporary folder that goes with
the demo, unless --data keeps it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.out, d.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return d.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.listen, "listen", config.DefaultListen, "address of the gateway and its page (this machine only)")
	f.StringVar(&d.sandboxListen, "sandbox-listen", "127.0.0.1:8090", "address of the stand-in for Meta")
	f.StringVar(&d.data, "data", "", "keep the data in this folder")
	f.BoolVar(&d.once, "once", false, "stop when the week is through, for a look at the figures")
	return cmd
}

// demoKey opens the demo's workspace, which only this machine reaches.
const demoKey = "demo-key-of-avto-start"

type demo struct {
	listen, sandboxListen, data string
	once                        bool
	out, errOut                 io.Writer

	hand      ledger.Hand
	clock     ledger.Clock
	client    *http.Client
	graph     *capitest.Graph
	app       *app.App
	crm       *demoCRM
	base      string            // of the gateway
	hooks     map[string]string // addresses, by the name of the source or CRM
	secret    string            // signs between the gateway and the CRM, both ways
	appSecret string            // secret of the Meta app
	counted   struct{ leads, moves int }
}

func (d *demo) run(ctx context.Context) error {
	if err := onlyLocal(d.listen); err != nil {
		return err
	}
	if d.data == "" {
		folder, err := os.MkdirTemp("", "capiloop-demo-")
		if err != nil {
			return fmt.Errorf("make a folder for the demo: %w", err)
		}
		defer os.RemoveAll(folder)
		d.data = folder
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d.clock, d.client = d.hand.Clock(), &http.Client{Timeout: time.Minute}
	first := d.isFirst()
	now := d.clock.Now()
	if first {
		d.hand.Set(now.Add(-demoWeek - time.Hour)) // connected shortly before the first lead
	}
	sandboxDone, err := d.standIns(ctx, stop)
	if err != nil {
		return err
	}
	if err = d.start(ctx); err == nil {
		err = d.show(ctx, first, now)
	}
	if err == nil && !d.once {
		d.goOn(ctx)
	}
	if ctx.Err() != nil {
		err = nil // stopped by hand
	}
	stop()
	if d.app != nil {
		err = errors.Join(err, d.app.Stop(ctx))
	}
	return errors.Join(err, <-sandboxDone)
}

// isFirst tells whether the folder has no week yet.
func (d *demo) isFirst() bool {
	_, err := os.Stat(filepath.Join(d.data, "capiloop.db"))
	return errors.Is(err, os.ErrNotExist)
}

// standIns starts those for Meta and for the CRM. The channel tells how they ended; if
// that for Meta ends by itself, all stops.
func (d *demo) standIns(ctx context.Context, stop func()) (<-chan error, error) {
	d.graph = app.NewSandbox(d.clock)
	d.graph.AddForm(capitest.Form{ID: demoForm, PageID: demoPage, Name: "Category B, free trial lesson", Questions: []string{"full_name", "email", "phone_number"}})
	listener, err := listenSandbox(ctx, d.sandboxListen)
	if err != nil {
		return nil, err
	}
	d.sandboxListen = listener.Addr().String() // port 0 is a real one now
	if d.crm, err = newDemoCRM(ctx); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	done := make(chan error, 1)
	go func() {
		err := serveSandbox(ctx, d.graph, listener)
		stop()
		done <- errors.Join(err, d.crm.close())
	}()
	return done, nil
}

// demoSettings are those that the demo would have in its file.
const demoSettings = `
workspaces:
  - name: avto-start
    country: KZ
    currency: KZT
    api_keys: ["${KEY}"]
    datasets: [{id: sandbox}]
    sources:
      - {kind: meta_leads, name: forms, page_id: "` + demoPage + `", page_token: demo, app_secret: "${APP_SECRET}", verify_token: demo, url: "${META}"}
    crms:
      - {kind: webhook, name: crm, url: "${CRM}", secret: "${CRM_SECRET}", allow_private: true}
    stages:
      - {stage: received, event: Lead}
      - {stage: Qualified, event: QualifiedLead}
      - {stage: Contract, event: Purchase, value: deal}
`

// start starts the gateway.
func (d *demo) start(ctx context.Context) error {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails, by its documentation
	d.secret, d.appSecret = "whsec_"+base64.StdEncoding.EncodeToString(random[:]), rand.Text()
	known := map[string]string{"KEY": demoKey, "APP_SECRET": d.appSecret, "META": "http://" + d.sandboxListen, "CRM": d.crm.url, "CRM_SECRET": d.secret}
	file, err := config.Parse("the demo's settings", []byte(demoSettings), func(name string) (string, bool) {
		value, ok := known[name]
		return value, ok
	})
	if err != nil {
		return err
	}
	if err := file.Apply(config.Overrides{Listen: d.listen, DataDir: d.data}); err != nil {
		return usageError{err}
	}
	a, err := app.New(app.Options{
		File: file, Clock: d.clock, Version: version, Pages: true, Sandbox: d.graph, SandboxURL: "http://" + d.sandboxListen + "/",
	})
	if err != nil {
		return err
	}
	if err := a.Start(ctx); err != nil {
		return err
	}
	d.app = a
	d.base = "http://" + d.app.Addr()
	sources, err := d.app.Actions().Sources(ctx, me, "")
	if err != nil {
		return err
	}
	d.hooks = make(map[string]string)
	for _, s := range sources {
		d.hooks[s.Name] = s.URL
	}
	return nil
}

// onlyLocal refuses addresses that others can reach: the demo's pages have no login.
func onlyLocal(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	if err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return wrongUsage("the demo has no login and listens on this machine only: --listen 127.0.0.1:PORT")
	}
	return nil
}

// show replays the week and prints what to look at.
func (d *demo) show(ctx context.Context, first bool, now time.Time) error {
	fmt.Fprintf(d.out, `Capiloop's demo: a driving school's week, with stand-ins for Meta and for its CRM.

  What became of each:      %s/
  What the sandbox got:     http://%s/

`, d.base, d.sandboxListen)
	if first {
		fmt.Fprintln(d.out, "The week runs through within half a minute. Open the first page and watch.")
		if err := d.replay(ctx, now); err != nil {
			return err
		}
		if err := d.slips(ctx); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(d.out, "The week is in this folder already; it goes on from here.")
	}
	book, err := d.settled(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(d.out, "\n  ")
	printBook(d.out, book)
	fmt.Fprintf(d.out, `
  One lead, from the form to the contract: %s/leads/%d
  Send an event yourself:

    curl %s/v1/events -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \
      -d '{"event_name":"Lead","action_source":"website","event_source_url":"https://example.com/","user_data":{"em":"you@example.com","client_user_agent":"curl"}}'

`, d.base, demoIDs+demoSigned, d.base, demoKey)
	if !d.once {
		fmt.Fprintln(d.out, "A new lead comes every few seconds. Stop it with Ctrl-C.")
	}
	return nil
}

// settled waits until nothing is on its way any more, or for ten seconds.
func (d *demo) settled(ctx context.Context) (*admin.Ledger, error) {
	var book *admin.Ledger
	err := d.until(ctx, func() (done bool, err error) {
		book, err = d.app.Actions().Ledger(ctx, me, "", admin.LedgerQuery{})
		return err == nil && book.Waiting == 0, err
	})
	return book, err
}

// until asks again and again, for ten seconds at most: the demo goes on then.
func (d *demo) until(ctx context.Context, ask func() (bool, error)) error {
	for began := time.Now(); ; {
		if done, err := ask(); done || err != nil || time.Since(began) > 10*time.Second {
			return err
		}
		if err := d.clock.Sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
