package intake_test

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

const hookSecret = "hook-secret-0001"

// telling is a kind of CRM that tells of stages by hooks that look like what is read off
// them, with e-mails in the place of whole contacts.
type telling struct{ crm.CRM }

type told struct {
	Changes []ledger.StageChange
	Emails  []string
	Merges  []ledger.Merge
}

func (telling) Receive(r crm.Incoming, a crm.Account, _ time.Time) crm.Received {
	if r.Method == http.MethodGet {
		return crm.Received{Answer: crm.Answer{Status: http.StatusOK, Body: []byte(r.Query.Get("challenge"))}}
	}
	if r.Header.Get("X-Secret") != a.Options.Text("secret") {
		return crm.Received{Answer: crm.Answer{Status: http.StatusUnauthorized, Body: []byte("who are you?")}}
	}
	var got told
	if err := json.Unmarshal(r.Body, &got); err != nil {
		return crm.Received{Answer: crm.Answer{Status: http.StatusOK, Body: []byte("not understood")}}
	}
	for i, email := range got.Emails {
		got.Changes[i].Contact.Email = email
	}
	return crm.Received{
		Changes: got.Changes, Merges: got.Merges, Busy: http.StatusTooManyRequests,
		Answer: crm.Answer{Status: http.StatusAccepted, ContentType: "application/json", Body: []byte(`{"url":"` + r.URL + `"}`)},
	}
}

// silent is a kind that tells of nothing.
type silent struct{ crm.CRM }

func crmKinds() map[string]crm.CRM {
	return map[string]crm.CRM{"telling": telling{}, "silent": silent{}}
}

func fileCRMs() []store.FileCRM {
	return []store.FileCRM{{Kind: "telling", Name: "crm", Webhook: hookKey("one", "crm")}, {Kind: "silent", Name: "chat", Webhook: hookKey("one", "chat")}}
}

func crmsOf(applied *store.Applied) []*config.CRM {
	var list []*config.CRM
	for _, f := range fileCRMs() {
		row := applied.CRMs["one/"+f.Name]
		list = append(list, &config.CRM{
			Destination: row.Destination, Webhook: row.Webhook, Options: secret.NewOptions(map[string]string{"secret": hookSecret}, nil, nil),
		})
	}
	return list
}

func account(_ context.Context, ws *config.Workspace, c *config.CRM) crm.Account {
	return crm.Account{ID: c.ID, Workspace: ws.ID, Kind: c.Kind, Name: c.Name, Options: c.Options}
}
