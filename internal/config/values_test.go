package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/secret"
)

// site is a made-up kind whose settings may say certain things only.
var siteKinds = config.Kinds{"website": {
	{Name: "site", Needs: "origins", Key: true},
	{Name: "origins", Form: config.List, Help: "pages that may post"},
	{Name: "fbp", OneOf: []string{"read", "create"}},
	{Name: "consent", Form: config.Map, Keys: map[string][]string{"wait": {"hold", "drop", "send"}}},
}}

func TestCheckOptionsTellsWhatValuesAreWrong(t *testing.T) {
	t.Parallel()
	f, err := config.Parse("c.yaml", []byte(`workspaces:
  - name: a
    sources:
      - {kind: website, name: one, site: shop-1, origins: [shop.example.com], fbp: create, consent: {wait: drop}}
      - {kind: website, name: two, site: shop-1, origins: [shop.example.com], fbp: make}
      - {kind: website, name: three, site: "not a key"}
      - {kind: website, name: four, consent: {wait: never, weit: hold}}
      - {kind: website, name: five, consent: hold, site: "${SITE}", origins: [x.example.com]}
`), func(string) (string, bool) { return "zqsecretzq!", true })
	require.NoError(t, err)
	err = f.CheckOptions(siteKinds, nil)
	var all *config.Error
	require.ErrorAs(t, err, &all)
	require.NotContains(t, err.Error(), "zqsecretzq")
	golden(t, "testdata/values.golden", err.Error()+"\n")
}

func TestSourceBySite(t *testing.T) {
	t.Parallel()
	source := func(ws, id int64, site string) *config.Source {
		return &config.Source{ID: id, Workspace: ws, Name: site + "-source", Options: secret.NewOptions(map[string]string{"site": site}, nil, nil)}
	}
	one, two, none := source(1, 1, "shop-1"), source(2, 2, "shop-2"), source(2, 3, "")
	s, err := config.NewSnapshot(&config.Workspace{ID: 1, Name: "a", Sources: []*config.Source{one}}, &config.Workspace{ID: 2, Name: "b", Sources: []*config.Source{two, none}})
	require.NoError(t, err)
	ws, found := s.SourceBySite("shop-2")
	require.Equal(t, "b", ws.Name)
	require.Same(t, two, found)
	for _, key := range []string{"", "shop", "shop-3"} {
		_, found = s.SourceBySite(key)
		require.Nil(t, found)
	}
	n := 0
	for range s.Sites() {
		n++
	}
	require.Equal(t, 2, n)
	_, err = config.NewSnapshot(&config.Workspace{ID: 1, Name: "a", Sources: []*config.Source{one, source(1, 4, "shop-1")}})
	require.ErrorContains(t, err, "site of source")
}
