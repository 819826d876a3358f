package ledger

import "maps"

// Reason is the code that tells why a delivery is in its state. Screens show its
// sentence, the API both.
type Reason string

// The reasons, each with its sentence in the table below.
const (
	None Reason = ""

	// waiting.
	Queued     Reason = "queued"
	Retrying   Reason = "retrying"
	Throttled  Reason = "throttled"
	AnswerLost Reason = "answer_lost"
	Backlog    Reason = "destination_backing_off"

	// held.
	TokenInvalid      Reason = "token_invalid"
	PermissionMissing Reason = "permission_missing"
	DatasetOutOfReach Reason = "dataset_out_of_reach"
	Blocked           Reason = "blocked_by_policy"
	UnclearRefusal    Reason = "unclear_refusal"
	MaybeSent         Reason = "maybe_sent"
	NotCounted        Reason = "not_counted"
	ClockAhead        Reason = "clock"
	DestinationGone   Reason = "destination_removed"
	FieldMissing      Reason = "field_missing" // a CRM lacks a field, a pipeline or a stage
	AddressGone       Reason = "address_gone"  // a CRM's address, chat or mailbox is not there
	BulkChange        Reason = "bulk_change"   // the guard: many leads moved at once
	ValueOutlier      Reason = "value_outlier" // the guard: far above what is usual
	TestName          Reason = "test_name"     // the guard: the lead is called like a test
	Sequence          Reason = "sequence"      // after: the lead's event before it is not sent yet

	// skipped.
	NoConsent      Reason = "no_consent"
	Crawler        Reason = "crawler" // filtered: a robot looked at the page, not a person
	NotLive        Reason = "not_live"
	NoDestination  Reason = "no_destination"
	Dropped        Reason = "dropped_by_person"
	WasRemoved     Reason = "removed_confirmed"
	Cleared        Reason = "contact_cleared"
	OtherPlatform  Reason = "other_platform"
	SequenceBroken Reason = "sequence_broken" // after: the event before it was not sent
	Undone         Reason = "mark_undone"     // a mark that was taken back within its ten minutes

	// failed.
	Expired     Reason = "expired"
	Refused     Reason = "refused"
	NoMatchKey  Reason = "no_match_key"
	InvalidTime Reason = "invalid_time"
)

// sentences is the one table of reasons. Each sentence says what is the matter and,
// where something is to be done, what.
var sentences = map[Reason]string{
	None:       "Accepted.",
	Queued:     "Waiting for its turn; it leaves within seconds.",
	Retrying:   "The destination did not take it yet; it is tried again by itself.",
	Throttled:  "The destination asked us to slow down; sending goes on by itself.",
	AnswerLost: "The connection broke before the answer came; it is sent again under the same id, so that it cannot count twice.",
	Backlog:    "The destination is out of order at the moment; sending goes on by itself.",

	TokenInvalid:      "The access token is not valid any more; put in a new one and sending goes on by itself.",
	PermissionMissing: "The access token lacks a permission; grant it and sending goes on by itself.",
	DatasetOutOfReach: "The dataset cannot be reached with this token: its id is wrong, it was never shared, or the share has lapsed. Share it again and sending goes on by itself.",
	Blocked:           "The destination has blocked us for a while because of its rules; look into the account's notices.",
	UnclearRefusal:    "The destination refuses everything with an answer that says nothing; often a share has lapsed. It is tried again by itself.",
	MaybeSent:         "For 47 hours no answer came after it was sent. Meta forgets ids after 48 hours and might count it twice, so a person decides: release or drop.",
	NotCounted:        "The destination answers without an error but does not count it; a person decides: release or drop.",
	ClockAhead:        "Its time lies in the future; it waits until then. Set the clock of the system that sent it.",
	FieldMissing:      "The CRM lacks a field, pipeline or stage that this needs; create it and it goes in by itself.",
	AddressGone:       "There is nothing at the address that the configuration names for this CRM; set the right one and it goes in by itself.",
	BulkChange:        "Held for your OK: far more leads moved within ten minutes than usual, as after an import or a mass edit. Release or drop them.",
	ValueOutlier:      "Held for your OK: its value is more than twenty times the usual one. Release or drop it.",
	TestName:          "Held for your OK: the lead is called like a test. Release or drop it.",
	Sequence:          "Waits for the event that must go before it; it goes by itself then.",
	DestinationGone:   "Its destination was removed; confirm, and it is skipped.",

	NoConsent:      "Not sent, because the person did not agree.",
	Crawler:        "Not sent, because a crawler or another program opened the page, not a person.",
	NotLive:        "Not sent, because the destination is switched off.",
	NoDestination:  "Not sent, because the workspace had no destination for it.",
	Dropped:        "Not sent, because a person dropped it.",
	Cleared:        "Not sent, because the person's data was cleared before it could go.",
	OtherPlatform:  "Not sent, because the lead came from another platform's ad, or from none.",
	SequenceBroken: "Not sent, because the event that had to go before it was not sent.",
	Undone:         "Not sent, because who marked the lead took that back.",
	WasRemoved:     "Not sent, because its destination was removed and a person confirmed it.",

	Expired: "Too late: the destination takes events only for a few days after they happened.",
	Refused: "The destination refused this event for good.",

	NoMatchKey:  "Nothing of this lead may leave that its person could be recognised by: no lead id, e-mail, phone or click id.",
	InvalidTime: "It is said to have happened more than ten minutes before the lead came in; the CRM's clock or time zone is wrong.",
}

// Sentence returns the reason in words for people; a waiting row without a reason
// is queued.
func (r Reason) Sentence() string {
	if s, ok := sentences[r]; ok {
		return s
	}
	return "Unknown reason " + string(r) + "."
}

// Reasons returns every reason with its sentence, for docs and tests.
func Reasons() map[Reason]string { return maps.Clone(sentences) }
