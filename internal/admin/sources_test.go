package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// telling is a kind of CRM that tells of stages, silent one that does not.
type (
	telling struct{ crm.CRM }
	silent  struct{ crm.CRM }
)

func (telling) Receive(crm.Incoming, crm.Account, time.Time) crm.Received { return crm.Received{} }

// A CRM that tells of stages has an address to be entered there, as a source has.
func TestCRMsThatTellOfStagesAreListed(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	applied, err := w.Store.ApplyFile(t.Context(), []store.FileWorkspace{{
		Name:    admintest.Shop,
		Sources: []store.FileSource{{Kind: "website", Name: "site", Webhook: "key-of-the-site"}},
		CRMs:    []store.FileCRM{{Kind: "telling", Name: "crm", Webhook: "key-of-the-crm"}, {Kind: "silent", Name: "chat"}},
	}})
	require.NoError(t, err)
	site, tells, chat := applied.Sources["shop/site"], applied.CRMs["shop/crm"], applied.CRMs["shop/chat"]
	settings, err := config.NewSnapshot(&config.Workspace{
		ID: applied.Workspaces[admintest.Shop], Name: admintest.Shop,
		Sources: []*config.Source{{ID: site.ID, Kind: "website", Name: "site", Webhook: site.Webhook, CreatedAt: site.CreatedAt, Options: secret.NewOptions(map[string]string{"site": "shop-1"}, nil, nil)}},
		CRMs:    []*config.CRM{{Destination: tells.Destination, Webhook: tells.Webhook}, {Destination: chat.Destination, Webhook: chat.Webhook}},
	})
	require.NoError(t, err)
	a := admin.New(admin.Config{
		Store: w.Store, Settings: config.NewLive(settings), CRMs: map[string]crm.CRM{"telling": telling{}, "silent": silent{}},
		URL: func() string { return "https://leads.example.com" },
	})
	list, err := a.Sources(t.Context(), owner, "")
	require.NoError(t, err)
	require.Equal(t, []admin.Source{
		{
			Workspace: "shop", Kind: "website", Name: "site", URL: "https://leads.example.com/webhooks/key-of-the-site",
			Snippet: `<script async src="https://leads.example.com/t.js?site=shop-1"></script>`, ConnectedAt: site.CreatedAt.UTC(),
		},
		{Workspace: "shop", Kind: "telling", Name: "crm", CRM: true, URL: "https://leads.example.com/webhooks/key-of-the-crm", ConnectedAt: tells.CreatedAt.UTC()},
	}, list)

	n := store.Notice{ID: w.IDs.Next(), Workspace: applied.Workspaces[admintest.Shop], Source: store.CRMSource(tells.ID), Key: "stage:1", Body: []byte("{}"), At: admintest.Now}
	_, err = w.Store.AddNotices(t.Context(), []store.Notice{n})
	require.NoError(t, err)
	list, err = a.Sources(t.Context(), reader, "")
	require.NoError(t, err)
	require.Nil(t, list[0].LastSeenAt, "the word was the CRM's")
	require.True(t, admintest.Now.Equal(*list[1].LastSeenAt))
	require.Empty(t, list[1].URL, "an address is a secret")
	require.NotEmpty(t, list[0].Snippet, "a snippet is none")
}
