package capi

import (
	"slices"
	"sync"
)

// Explanation is what a person should know about an error: whose it is and what
// to do. The sentences are ours; Meta's own are in APIError.
type Explanation struct {
	Code     int // 0 for errors of the transport
	Subcode  int // 0: any subcode without an entry of its own
	Title    string
	Cause    string
	Owner    Owner
	NextStep string
	Retried  Handling
	Class    Class
}

// Owner is who can mend something.
type Owner string

// The owners.
const (
	OwnerYou    Owner = "you"    // who runs the gateway and sends the events
	OwnerClient Owner = "client" // who owns the dataset and the Page
	OwnerMeta   Owner = "meta"
)

// Handling says what the product does with the events of a failed request.
type Handling string

// The ways to handle a failed request.
const (
	HandlingRetried Handling = "retried" // sent again by itself, with the same event_id
	HandlingWaits   Handling = "waits"   // kept until someone has repaired the cause
	HandlingApart   Handling = "apart"   // tried one by one to find the event that is at fault
	HandlingNever   Handling = "never"   // the faulty event is not sent again
)

func handlingOf(c Class) Handling {
	switch c {
	case ClassAccess:
		return HandlingWaits
	case ClassPayload:
		return HandlingNever
	case ClassUnclear:
		return HandlingApart
	default:
		return HandlingRetried
	}
}

func nextStepOf(c Class) string {
	switch c {
	case ClassThrottled:
		return "wait; the events go out when Meta allows it again"
	case ClassAccess:
		return "check the token and its access to the dataset in Business Settings"
	case ClassPayload:
		return "correct the event's data at its source; this event will not be sent again"
	case ClassUnclear:
		return "read Meta's own words below; if every event fails so, check the token's access to the dataset first"
	default:
		return "nothing; it is tried again by itself"
	}
}

// Explain returns the entry for an error of Graph: that of code and subcode, else
// that of the code or its family, else one for errors that nobody has described.
// The answer carries the code and subcode that were asked for.
func Explain(code, subcode int) Explanation {
	x, ok := lookUp(code, subcode)
	if !ok {
		x = Explanation{
			Title: "Meta refused the request with an error that its pages do not describe",
			Cause: "unknown: it may be one of the events or the access to the dataset",
			Owner: OwnerYou, NextStep: nextStepOf(ClassUnclear),
			Retried: HandlingApart, Class: ClassUnclear,
		}
	}
	x.Code, x.Subcode = code, subcode
	return x
}

// Catalogue returns every entry, ordered by code and subcode. Families (200 to
// 299, 80000 to 80014, 100 with 2804xxx) stand under their first code.
func Catalogue() []Explanation {
	list := slices.Clone(catalogue)
	slices.SortStableFunc(list, func(a, b Explanation) int {
		if a.Code != b.Code {
			return a.Code - b.Code
		}
		return a.Subcode - b.Subcode
	})
	return list
}

type codes struct{ code, subcode int }

var catalogueIndex = sync.OnceValue(func() map[codes]int {
	index := make(map[codes]int, len(catalogue))
	for i, x := range catalogue {
		index[codes{x.Code, x.Subcode}] = i
	}
	return index
})

// The family of validation faults, and the entry that stands for it.
const (
	payloadFamilyFirst = 2804000
	payloadFamilyLast  = 2804999
)

func lookUp(code, subcode int) (Explanation, bool) {
	index := catalogueIndex()
	if i, ok := index[codes{code, subcode}]; ok {
		return catalogue[i], true
	}
	family := codes{code, 0}
	switch {
	case code == 100 && subcode >= payloadFamilyFirst && subcode <= payloadFamilyLast:
		family.subcode = payloadFamilyFirst
	case code >= 200 && code <= 299 && code != 270:
		family.code = 200
	case code >= 80000 && code <= 80014:
		if _, ok := index[family]; !ok {
			family.code = 80000
		}
	}
	if i, ok := index[family]; ok {
		return catalogue[i], true
	}
	return Explanation{}, false
}

// explainTransport explains an error that carries no code of Graph.
func explainTransport(e *APIError) Explanation {
	x := Explanation{Class: e.Class, Retried: handlingOf(e.Class), NextStep: nextStepOf(e.Class), Owner: OwnerMeta}
	switch e.Class {
	case ClassUnsent:
		x.Title = "Meta was not reached"
		x.Cause = "the connection could not be made (name, network, firewall, proxy or certificate); the events did not leave"
		x.Owner = OwnerYou
		x.NextStep = "check that this server may reach Meta by HTTPS; it is tried again by itself"
	case ClassAmbiguous:
		x.Title = "no answer came back"
		x.Cause = "the request went out, but the connection broke or timed out before a readable answer came; Meta may have counted the events"
		x.NextStep = "nothing; it is tried again with the same event_id, so that nothing counts twice"
	case ClassThrottled:
		x.Title = "Meta asks to slow down"
		x.Cause = "too many requests in a short time"
	case ClassAccess:
		x.Title = "the settings of this destination do not work"
		x.Cause = "the request could not be made with them; nothing left"
		x.Owner = OwnerYou
		x.NextStep = "correct the token or the id in the settings"
	case ClassRetry:
		x.Title = "Meta did not answer as Graph"
		x.Cause = "an error page of Meta's edge or of a proxy came back, or Meta is down for a moment"
		if e.HTTPStatus >= 300 && e.HTTPStatus < 400 {
			x.Title = "the answer is a redirect, which is not followed"
			x.Cause = "the base address is not Graph's, or a proxy wants a login"
			x.Owner = OwnerYou
			x.NextStep = "check the base address and the proxy; it is tried again by itself"
		}
	default:
		x.Title = "the request was refused without a reason that can be read"
		x.Cause = "something between here and Meta, or Meta itself, refused it"
		x.Owner = OwnerYou
	}
	return x
}
