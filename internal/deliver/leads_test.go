package deliver_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/deliver"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// fakeCRM keeps one record per lead id, and answers as it is told.
type fakeCRM struct {
	mu      sync.Mutex
	records []string                            // e-mails, in the order in which they were created
	calls   int                                 // of Deliver
	answer  func(l *ledger.Lead) ledger.Outcome // nil: accept
	single  int                                 // 1: one call at a time
}

func (*fakeCRM) Options() []crm.Option                                { return nil }
func (*fakeCRM) Preview(crm.Account, *ledger.Lead) []crm.Call         { return nil }
func (*fakeCRM) Check(context.Context, crm.Account, bool) []crm.Check { return nil }
func (f *fakeCRM) Pace(crm.Account) (parallel int, perSecond float64) { return 2 - f.single, 50 }

func (f *fakeCRM) Deliver(_ context.Context, _ crm.Account, l *ledger.Lead, known []string) crm.Delivered {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.answer != nil {
		if o := f.answer(l); o != nil {
			return crm.Delivered{Outcome: o}
		}
	}
	if len(known) == 0 && !slices.Contains(f.records, l.Contact.Email) {
		f.records = append(f.records, l.Contact.Email)
	}
	return crm.Delivered{Outcome: ledger.Accepted{}, Records: []string{"contact:" + l.LeadID}, Sent: []byte(l.Contact.Email)}
}

func (f *fakeCRM) set(answer func(l *ledger.Lead) ledger.Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func (f *fakeCRM) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.records)
}

func accountOf(_ context.Context, w *config.Workspace, c *config.CRM) crm.Account {
	return crm.Account{ID: c.ID, Workspace: w.ID, Kind: c.Kind, Name: c.Name, Country: w.Country, Options: c.Options}
}

// leadRig is a store, a recorder and a CRM in a bubble.
type leadRig struct {
	crm      *fakeCRM
	store    *store.Store
	recorder *record.Recorder
	ws       *config.Workspace
	dir      string
	n        int
}

func leadsInBubble(t *testing.T, test func(t *testing.T, r *leadRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
		dir := t.TempDir()
		s, err := store.Open(t.Context(), store.Config{Database: filepath.Join(dir, "capiloop.db")})
		require.NoError(t, err)
		applied, err := s.ApplyFile(t.Context(), []store.FileWorkspace{{Name: "estate", Destinations: []store.FileDestination{{Kind: "fake", Name: "estate/crm", Live: true}}}})
		require.NoError(t, err)
		master, err := secret.LoadMaster(filepath.Join(dir, "master.key"), os.LookupEnv)
		require.NoError(t, err)
		ring, _ := master.NewRing(applied.Workspaces["estate"])
		r := &leadRig{crm: &fakeCRM{}, store: s, dir: dir}
		r.ws = &config.Workspace{
			ID: applied.Workspaces["estate"], Name: "estate", Country: "ES", MergeWindow: time.Hour, Ring: ring,
			CRMs: []*config.CRM{{Destination: applied.Destinations["fake/estate/crm"]}},
		}
		snapshot, err := config.NewSnapshot(r.ws)
		require.NoError(t, err)
		ids := ledger.NewIDs(s.Node(), time.Now)
		r.recorder = record.New(record.Config{Store: s, IDs: ids})
		d := deliver.New(deliver.Config{Store: s, Settings: config.NewLive(snapshot), CRMs: map[string]crm.CRM{"fake": r.crm}, Account: accountOf, IDs: ids, Node: "node"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(t, <-done)
			require.NoError(t, s.Close())
		}()
		test(t, r)
	})
}

// lead records one more lead and returns its e-mail.
func (r *leadRig) lead(t *testing.T, change ...func(l *ledger.Lead)) string {
	t.Helper()
	r.n++
	l := ledger.Lead{
		Source: "forms", Kind: "meta_leads", Platform: "meta", LeadID: strconv.Itoa(987650000000000 + r.n), CreatedAt: time.Now(),
		Contact: ledger.Contact{FullName: "Ana Example", Email: fmt.Sprintf("ana%d@example.com", r.n), Phone: fmt.Sprintf("612 345 %03d", r.n)},
		Answers: []ledger.FormAnswer{{Question: "budget", Values: []string{"now"}}},
	}
	for _, f := range change {
		f(&l)
	}
	email := l.Contact.Email
	_, err := r.recorder.Lead(t.Context(), r.ws, &l)
	require.NoError(t, err)
	return email
}

func (r *leadRig) book(t *testing.T) *ledger.Book {
	t.Helper()
	b, err := r.store.Book(t.Context(), store.BookQuery{Workspace: r.ws.ID, Leads: true})
	require.NoError(t, err)
	require.Zero(t, b.Unexplained())
	events, err := r.store.Book(t.Context(), store.BookQuery{Workspace: r.ws.ID})
	require.NoError(t, err)
	require.Zero(t, events.Received, "leads are a book of their own")
	return b
}

func TestALeadIsInTheCRMWithinASecond(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		time.Sleep(time.Minute)
		email := r.lead(t)
		time.Sleep(time.Second)
		require.Equal(t, []string{email}, r.crm.seen())
		require.EqualValues(t, 1, r.book(t).Total(ledger.Sent))
		rows, err := r.store.Leads(t.Context(), r.ws.ID, 0, 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		stored, err := r.store.LeadFor(t.Context(), r.ws.CRMs[0].ID, rows[0].Lead.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"contact:987650000000001"}, stored.Records, "the CRM's id is known with the delivery")
		plain, err := r.ws.Ring.ReadLead(int64(stored.Lead.ID), stored.Wrapped, stored.Sealed)
		require.NoError(t, err)
		lead := stored.Lead
		require.NoError(t, lead.Join(plain))
		require.Equal(t, "Ana Example", lead.Contact.FullName)
		require.Equal(t, "now", lead.Answers[0].Values[0])
	})
}

// The CRM is out of order for 20 minutes: then what waited arrives within ten more, in
// order, and nothing twice.
func TestACRMOutageIsCaughtUp(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		r.crm.single = 1
		r.crm.set(func(*ledger.Lead) ledger.Outcome {
			return ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: 503}}
		})
		var want []string
		for range 10 {
			want = append(want, r.lead(t))
			time.Sleep(2 * time.Minute)
		}
		require.EqualValues(t, 10, r.book(t).Total(ledger.Waiting))
		r.crm.set(nil)
		time.Sleep(11 * time.Minute)
		require.Equal(t, want, r.crm.seen())
		require.EqualValues(t, 10, r.book(t).Total(ledger.Sent))
	})
}

func TestARefusedLeadDoesNotBlockTheNext(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		r.crm.set(func(l *ledger.Lead) ledger.Outcome {
			if l.Contact.Email == "ana1@example.com" {
				return ledger.Refusal{Answer: ledger.Answer{Status: 422, Message: "unknown property"}}
			}
			return nil
		})
		r.lead(t)
		second := r.lead(t)
		time.Sleep(time.Second)
		require.Equal(t, []string{second}, r.crm.seen())
		require.EqualValues(t, 1, r.book(t).By[ledger.Failed][ledger.Refused])
	})
}

func TestALeadsOwnTroubleStepsAside(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		bad := "ana1@example.com"
		r.crm.set(func(l *ledger.Lead) ledger.Outcome {
			if l.Contact.Email == bad {
				return ledger.RetryAt{Reason: ledger.Backlog}
			}
			return nil
		})
		for range 20 {
			r.lead(t)
		}
		time.Sleep(30 * time.Second)
		require.Len(t, r.crm.seen(), 19)
		r.crm.set(nil)
		time.Sleep(time.Hour)
		require.Len(t, r.crm.seen(), 20)
	})
}

// Leads that the CRM will not have stand at the head of the queue, more of them than go
// at once. Whatever it answers, those behind them arrive.
func TestLeadsThatAreNotTakenDoNotStandInTheWay(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]ledger.Outcome{
		"an error of the server": ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: 500}},
		"a refusal of access":    ledger.Hold{Reason: ledger.TokenInvalid, Answer: ledger.Answer{Status: 401}},
		"a cut connection":       ledger.Lost{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leadsInBubble(t, func(t *testing.T, r *leadRig) {
				r.crm.set(func(l *ledger.Lead) ledger.Outcome {
					if strings.HasSuffix(l.Contact.Email, "@bad.example.com") {
						return answer
					}
					return nil
				})
				for range 8 {
					r.lead(t, func(l *ledger.Lead) { l.Contact.Email = "x" + l.LeadID + "@bad.example.com" })
				}
				time.Sleep(time.Second)
				for range 10 {
					r.lead(t)
				}
				time.Sleep(90 * time.Minute)
				require.Len(t, r.crm.seen(), 10)

				// From now on it is known whose trouble it is: a good lead does not wait.
				for range 20 {
					before := len(r.crm.seen())
					r.lead(t)
					time.Sleep(2 * time.Second)
					require.Len(t, r.crm.seen(), before+1)
					time.Sleep(97 * time.Second)
				}
				r.crm.set(nil)
				time.Sleep(2 * time.Hour)
				require.Len(t, r.crm.seen(), 38)
			})
		})
	}
}

// A lead that cannot be opened is our own fault and says nothing of the CRM.
func TestALeadThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		r.crm.set(func(*ledger.Lead) ledger.Outcome { return ledger.Hold{Reason: ledger.TokenInvalid} })
		r.lead(t)
		time.Sleep(time.Second)
		broken := ledger.NewIDs(1, time.Now).Next()
		_, err := r.store.RecordLead(t.Context(), &store.LeadRecording{
			Lead: ledger.Lead{ID: broken, Workspace: r.ws.ID, Source: "forms", CreatedAt: time.Now()}, At: time.Now(), Wrapped: []byte("x"), Sealed: []byte("y"),
			Deliveries: []ledger.Delivery{{
				ID: broken.Delivery(1), Destination: r.ws.CRMs[0].ID, State: ledger.Waiting, Priority: ledger.Ordinary, Deadline: time.Now().Add(24 * time.Hour),
			}},
		})
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.EqualValues(t, 2, r.book(t).By[ledger.Held][ledger.TokenInvalid], "the lane is held still")
		r.crm.set(nil)
		time.Sleep(16 * time.Minute)
		require.Len(t, r.crm.seen(), 1)
		require.EqualValues(t, 1, r.book(t).Total(ledger.Waiting))
	})
}

func TestALostAnswerLeavesOneRecord(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		lost := true
		r.crm.set(func(l *ledger.Lead) ledger.Outcome {
			if lost {
				lost = false
				r.crm.records = append(r.crm.records, l.Contact.Email) // created, but the answer broke off
				return ledger.Lost{}
			}
			return nil
		})
		email := r.lead(t)
		time.Sleep(3 * time.Minute)
		require.Equal(t, []string{email}, r.crm.seen())
		require.EqualValues(t, 1, r.book(t).Total(ledger.Sent))
	})
}

func TestABrokenConnectionHoldsTheCRM(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		r.crm.set(func(*ledger.Lead) ledger.Outcome {
			return ledger.Hold{Reason: ledger.TokenInvalid, Answer: ledger.Answer{Status: 401}}
		})
		r.lead(t)
		time.Sleep(3 * time.Hour)
		require.EqualValues(t, 1, r.book(t).By[ledger.Held][ledger.TokenInvalid])
		require.Less(t, r.crm.calls, 25)
		r.crm.set(nil)
		time.Sleep(16 * time.Minute)
		require.Len(t, r.crm.seen(), 1)
	})
}

func TestOneLeadPerPersonAndPerID(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		first := r.lead(t)
		same := func(l *ledger.Lead) { l.LeadID, l.Contact.Email = "987650000000001", first }
		r.lead(t, same) // the webhook came twice
		website := func(l *ledger.Lead) {
			l.Source, l.Kind, l.Platform, l.LeadID, l.DedupeKey = "site", "website", "", "", "s1"
			l.Contact = ledger.Contact{Phone: "+34 612345001"}
		}
		r.lead(t, website)                                                                                         // the same phone within the hour
		r.lead(t, func(l *ledger.Lead) { l.Contact.Email = first })                                                // another id of the platform: another lead
		r.lead(t, website, func(l *ledger.Lead) { l.DedupeKey, l.CreatedAt = "s2", l.CreatedAt.Add(2*time.Hour) }) // later
		time.Sleep(time.Second)
		rows, err := r.store.Leads(t.Context(), r.ws.ID, 0, 10)
		require.NoError(t, err)
		require.Len(t, rows, 3)
		life, err := r.store.LeadLife(t.Context(), rows[2].Lead.ID)
		require.NoError(t, err)
		require.Len(t, life.Touches, 2)
		require.EqualValues(t, 1, r.book(t).Beside[ledger.Duplicate])
	})
}

// What a later touch brings must not be lost: the CRM's record is filled up, and a lead
// that was refused is tried once more.
func TestALaterTouchFillsTheLeadUp(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		var got []ledger.Lead
		r.crm.set(func(l *ledger.Lead) ledger.Outcome {
			got = append(got, *l)
			if l.Contact.FullName == "" {
				return ledger.Refusal{Answer: ledger.Answer{Status: 422, Message: "a name is needed"}}
			}
			return nil
		})
		website := func(l *ledger.Lead) {
			l.Source, l.Kind, l.Platform, l.LeadID, l.DedupeKey, l.Answers = "site", "website", "", "", "s1", nil
			l.Contact = ledger.Contact{Email: "ana2@example.com"}
		}
		r.lead(t, website)
		time.Sleep(time.Second)
		require.Empty(t, r.crm.seen())
		second := func(l *ledger.Lead) { l.LeadID, l.Contact.Email = "987650000000002", "ana2@example.com" }
		r.lead(t, second)
		time.Sleep(time.Second)
		require.Equal(t, []string{"ana2@example.com"}, r.crm.seen())
		r.lead(t, second) // the webhook comes twice
		r.lead(t, website)
		time.Sleep(time.Minute)
		require.Len(t, got, 2)
		require.Equal(t, "Ana Example", got[1].Contact.FullName)
		require.NotEmpty(t, got[1].Contact.Phone)
		require.Equal(t, "budget", got[1].Answers[0].Question)
		rows, err := r.store.Leads(t.Context(), r.ws.ID, 0, 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		book := r.book(t)
		require.EqualValues(t, 1, book.Total(ledger.Sent))
		require.EqualValues(t, 1, book.Total(ledger.Failed))
	})
}

func TestHistoryAndTestLeadsAreNotCarriedIntoTheCRM(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		r.lead(t, func(l *ledger.Lead) { l.History = true })
		r.lead(t, func(l *ledger.Lead) { l.Test = true })
		time.Sleep(time.Second)
		require.Empty(t, r.crm.seen())
		r.ws.CRMs[0].TestLeads = true
		r.lead(t, func(l *ledger.Lead) { l.Test = true })
		time.Sleep(time.Second)
		require.Len(t, r.crm.seen(), 1)
	})
}

// Nothing of a person can be read in the files of the database.
func TestNoPersonInTheDatabaseFiles(t *testing.T) {
	t.Parallel()
	leadsInBubble(t, func(t *testing.T, r *leadRig) {
		r.lead(t, func(l *ledger.Lead) {
			l.Contact.FullName, l.Contact.Email = "Zebedea Quintessa", "zebedea@quintessa.example"
			l.Answers = []ledger.FormAnswer{{Question: "treatment", Values: []string{"root canal of the third molar"}}}
		})
		time.Sleep(time.Second)
		require.Len(t, r.crm.seen(), 1)
		dir := r.dir
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, f := range files {
			raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
			require.NoError(t, err)
			for _, secret := range []string{"Zebedea", "zebedea@", "612 345 001", "34612345001", "third molar"} {
				require.NotContains(t, string(raw), secret, f.Name())
			}
		}
	})
}
