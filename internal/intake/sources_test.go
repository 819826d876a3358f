package intake_test

import (
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/google"
	"github.com/capiloop/capiloop/internal/leadform/linkedin"
	metaleads "github.com/capiloop/capiloop/internal/leadform/meta"
	"github.com/capiloop/capiloop/internal/leadform/tiktok"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// Secrets of the samples. They open nothing anywhere.
const (
	metaSecret     = "meta-app-secret-0001"
	metaVerify     = "verify-token-0001"
	googleKey      = "google-key-0001"
	tiktokSecret   = "tiktok-app-secret-0001"
	linkedinSecret = "linkedin-client-secret-0001"
	pageOne        = "100000000000001"
	pageTwo        = "100000000000009"
	origin         = "https://shop.example.com"
)

// testSource is one lead source of the workspaces of a door.
type testSource struct {
	workspace, kind, name string
	texts                 map[string]string
	lists                 map[string][]string
	maps                  map[string]map[string]string
}

// testSources have webhooks that are their workspace, name and enough dashes.
func testSources() []testSource {
	return []testSource{
		{"one", metaleads.Name, "forms", map[string]string{"page_id": pageOne, "page_token": "t", "app_secret": metaSecret, "verify_token": metaVerify}, nil, nil},
		{"two", metaleads.Name, "forms", map[string]string{"page_id": pageTwo, "page_token": "t", "app_secret": metaSecret, "verify_token": metaVerify}, nil, nil},
		{"two", metaleads.Name, "others", map[string]string{"page_id": "100000000000005", "page_token": "t", "app_secret": "another-secret", "verify_token": metaVerify}, nil, nil},
		{"one", google.Name, "google", map[string]string{"key": googleKey}, nil, nil},
		{"one", tiktok.Name, "tiktok", map[string]string{"app_secret": tiktokSecret}, nil, nil},
		{"one", linkedin.Name, "linkedin", map[string]string{"client_secret": linkedinSecret, "organization": "1", "token": "t"}, nil, nil},
		{"one", website.Name, "site", map[string]string{"redirect": origin + "/thanks"}, map[string][]string{"origins": {origin}}, nil},
		{"one", website.Name, "open", nil, nil, nil},
		{"one", website.Name, "web", map[string]string{"site": "shop-hold"}, map[string][]string{"origins": {origin, "http://plain.example.com", "server"}}, nil},
		{"one", website.Name, "web-plain", map[string]string{"site": "shop-plain", "pageview": "true", "pixel": "false"}, map[string][]string{"origins": {origin}}, map[string]map[string]string{"consent": {"wait": "plain"}}},
		{"one", website.Name, "web-send", map[string]string{"site": "shop-send", "fbp": "create"}, map[string][]string{"origins": {origin}}, map[string]map[string]string{"consent": {"wait": "send"}}},
		{"two", website.Name, "web-two", map[string]string{"site": "shop-two"}, map[string][]string{"origins": {"https://two.example.net"}}, nil},
	}
}

// hook is the address of a source of workspace one.
func hook(name string) string { return "/webhooks/" + hookKey("one", name) }

func hookKey(workspace, name string) string { return workspace + "-" + name + "-0123456789abcdefghij" }

func fileSources(workspace string) []store.FileSource {
	var list []store.FileSource
	for _, s := range testSources() {
		if s.workspace == workspace {
			list = append(list, store.FileSource{Kind: s.kind, Name: s.name, Webhook: hookKey(workspace, s.name)})
		}
	}
	return list
}

func sourcesOf(workspace string, applied *store.Applied) []*config.Source {
	var list []*config.Source
	for _, s := range testSources() {
		if s.workspace != workspace {
			continue
		}
		row := applied.Sources[workspace+"/"+s.name]
		list = append(list, &config.Source{
			ID: row.ID, Workspace: applied.Workspaces[workspace], Kind: s.kind, Name: s.name, Webhook: row.Webhook,
			CreatedAt: row.CreatedAt, Options: secret.NewOptions(s.texts, s.lists, s.maps),
		})
	}
	return list
}

func kinds() map[string]leadform.Kind {
	return map[string]leadform.Kind{
		metaleads.Name: metaleads.New(metaleads.Config{}), google.Name: google.Kind{}, tiktok.Name: tiktok.Kind{},
		linkedin.Name: linkedin.New(linkedin.Config{}), website.Name: website.Kind{},
	}
}
