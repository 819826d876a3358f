// Package leadformtest is what the stand-ins for lead platforms share: what each takes for
// an answer, and when it sends a webhook again. The senders themselves live beside the
// tests of their kinds.
package leadformtest

import (
	"net/http"
	"time"
)

// Repeats is how a platform sends a webhook again.
type Repeats struct {
	// Taken tells whether a status ends it well.
	Taken func(status int) bool
	// Final tells whether another status ends it for good; nil: none does.
	Final func(status int) bool
	// Wait is the time before the nth repeat, from 1 on.
	Wait func(n int) time.Duration
	// Span is how long after the first request the last one may come.
	Span time.Duration
}

// Deliver posts until the platform is content or gives up. post returns the status of the
// answer, 0 for none; wait lets time pass. It returns how many requests it took.
func (r Repeats) Deliver(post func() int, wait func(time.Duration)) (requests int, taken bool) {
	var passed time.Duration
	for requests = 1; ; requests++ {
		status := post()
		if r.Taken(status) {
			return requests, true
		}
		next := r.Wait(requests)
		if r.Final != nil && r.Final(status) || passed+next > r.Span {
			return requests, false
		}
		wait(next)
		passed += next
	}
}

// Google repeats what was answered 5xx, and gives up what was answered 4xx. For how long
// and how often it does not publish (support.google.com/google-ads/answer/16729613):
// assumed are a minute, doubled up to an hour, for a day.
func Google() Repeats {
	return Repeats{
		Taken: func(status int) bool { return status == http.StatusOK },
		Final: func(status int) bool { return status >= 400 && status < 500 },
		Wait:  func(n int) time.Duration { return min(doubled(n), time.Hour) },
		Span:  24 * time.Hour,
	}
}

// TikTok repeats what is not answered 200 at once, and then less and less often for 24
// hours (business-api.tiktok.com/portal/docs, page "Webhooks"). By how much less it does not
// say: assumed is a minute, doubled each time.
func TikTok() Repeats {
	return Repeats{Taken: func(status int) bool { return status == http.StatusOK }, Wait: atOnceThenDoubled, Span: 24 * time.Hour}
}

// Meta repeats what is not answered 200 at once, and then less and less often for 36 hours
// (developers.facebook.com/docs/graph-api/webhooks/getting-started, "Event Notifications").
// By how much less it does not say: assumed is a minute, doubled each time.
func Meta() Repeats {
	return Repeats{Taken: func(status int) bool { return status == http.StatusOK }, Wait: atOnceThenDoubled, Span: 36 * time.Hour}
}

// LinkedIn takes any 2xx (learn.microsoft.com/linkedin/shared/api-guide/webhook-validation).
// Of leads it only says that they may come several times (…/marketing/lead-sync/leadsync);
// assumed is what it says of an organization's notifications: every five minutes for eight
// hours (…/community-management/organizations/organization-social-action-notifications).
func LinkedIn() Repeats {
	return Repeats{
		Taken: func(status int) bool { return status >= 200 && status < 300 },
		Wait:  func(int) time.Duration { return 5 * time.Minute },
		Span:  8 * time.Hour,
	}
}

// Visitor is a person at a website's form: nothing repeats by itself, but who is told that
// it did not work presses the button again, a few times.
func Visitor() Repeats {
	return Repeats{
		Taken: func(status int) bool { return status >= 200 && status < 400 },
		Final: func(status int) bool { return status >= 400 && status < 500 },
		Wait:  func(int) time.Duration { return 5 * time.Second },
		Span:  time.Minute,
	}
}

func doubled(n int) time.Duration { return time.Minute << min(n-1, 20) }

func atOnceThenDoubled(n int) time.Duration {
	if n == 1 {
		return 0
	}
	return doubled(n - 1)
}
