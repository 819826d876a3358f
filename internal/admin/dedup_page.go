package admin

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/ledger"
)

// page finds the website that a page belongs to, and the page's path.
func (a *Admin) page(ws, address string) (w *config.Workspace, source *config.Source, path string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nil, "", &Error{Code: Invalid, Message: "It is not said which page is meant.", Fix: "Give its whole address, such as --url https://www.example.com/contact."}
	}
	workspaces := a.c.Settings.Get().Workspaces
	if ws != "" {
		one, err := a.workspace(ws)
		if err != nil {
			return nil, nil, "", err
		}
		workspaces = []*config.Workspace{one}
	}
	origin := strings.ToLower(u.Scheme + "://" + u.Host)
	untagged := ""
	for _, w := range workspaces {
		for _, s := range w.Sources {
			switch {
			case s.Kind != "website" || !website.Lets(s.Options, origin):
			case s.Options.Text(config.SiteKey) == "":
				untagged = s.Name
			default:
				return w, s, ledger.PagePath(address), nil
			}
		}
	}
	if untagged != "" {
		return nil, nil, "", &Error{Code: Invalid, Message: "The source " + strconv.Quote(untagged) + " has no site, so that no page of it can load the tag.", Fix: "Give it a key: site: my-site."}
	}
	return nil, nil, "", &Error{
		Code: Invalid, Message: "No source of kind website has the origin " + origin + ".",
		Fix: "Add one under sources: {kind: website, name: web, site: my-site, origins: [" + origin + "]}.",
	}
}

// DedupTest is Actions.DedupTest at the server.
func (c *Client) DedupTest(ctx context.Context, by Actor, ws string, q DedupTestQuery) (*DedupTest, error) {
	since := ""
	if !q.Since.IsZero() {
		since = q.Since.Format(time.RFC3339Nano)
	}
	t := &DedupTest{}
	if err := c.get(ctx, by, "/dedup-test", ws, url.Values{"url": {q.URL}, "event": {q.Event}, "since": {since}}, t); err != nil {
		return nil, err
	}
	return t, nil
}

func dedupRoutes(a Actions, get func(string, func(context.Context, Actor, string, url.Values) (any, error))) {
	get("/dedup", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		return a.Dedup(ctx, by, ws, DedupQuery{Days: q.Get("days"), Dataset: q.Get("dataset"), Event: q.Get("event")})
	})
	get("/dedup-test", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		since, err := parseTimeIn("since", q.Get("since"), time.UTC)
		if err != nil {
			return nil, err
		}
		return a.DedupTest(ctx, by, ws, DedupTestQuery{URL: q.Get("url"), Event: q.Get("event"), Since: since})
	})
}
