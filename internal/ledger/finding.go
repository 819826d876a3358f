package ledger

import "time"

// FindingKind names what was noticed.
type FindingKind string

// The kinds of findings that the core can notice.
const (
	FindingAccess            FindingKind = "access"             // a destination is held
	FindingDuplicateConflict FindingKind = "duplicate_conflict" // one event id for different people
	FindingShortCount        FindingKind = "short_count"        // a destination counted fewer events than it was given
	FindingClock             FindingKind = "clock"              // events come from the future
	FindingMaybeSent         FindingKind = "maybe_sent"         // answers were lost for 47 hours
	FindingCRM               FindingKind = "crm"                // a CRM is held
	FindingSource            FindingKind = "source"             // the leads of a source cannot be read
	FindingUnknownPage       FindingKind = "unknown_page"       // leads of a page that no source has
	FindingStages            FindingKind = "stages"             // the moves in a CRM cannot be read
	FindingGuard             FindingKind = "guard"              // stage changes that wait for a person's OK
	FindingMapping           FindingKind = "mapping"            // a stage was renamed or deleted, or a rule is for none
	FindingDeadline          FindingKind = "deadline"           // what waits is too late soon
	FindingSequence          FindingKind = "sequence"           // the rules tell Meta too little of what becomes of leads
	FindingSilence           FindingKind = "silence"            // what usually comes does not
	FindingVolume            FindingKind = "volume"             // too few leads, too few of them reported, or too late
	FindingDedupIDs          FindingKind = "dedup_ids"          // the browser's and the server's copies do not pair
	FindingDedupMissing      FindingKind = "dedup_missing"      // browsers report from a page, and the server does not
)

// Owner is who can mend a finding.
type Owner string

// The owners of a finding.
const (
	You    Owner = "you"
	Client Owner = "client"
	Meta   Owner = "meta"
)

// Finding is something the product noticed and a person should act on: one per
// cause, not per event.
type Finding struct {
	Workspace int64
	Kind      FindingKind
	Subject   string // what it is about: a destination, a source and event name
	Evidence  string // what was seen last: a reason code, an answer; nothing personal
	At        time.Time

	Since   time.Time
	FixedAt time.Time // zero: open
	Count   int64     // how often it was seen
}

// Explanation says a finding in words.
type Explanation struct {
	Title    string
	Cause    string
	NextStep string
	Owner    Owner
	Severity string // "error" or "warning"
}

// Explain returns the words for the finding.
func (f Finding) Explain() Explanation {
	switch f.Kind {
	case FindingAccess:
		e := Explanation{Title: "Nothing reaches " + f.Subject, Cause: Reason(f.Evidence).Sentence(), Owner: You, Severity: "error"}
		switch Reason(f.Evidence) {
		case TokenInvalid:
			e.NextStep = "Make a new access token in Events Manager and put it into the configuration; what waits then goes out by itself."
		case DatasetOutOfReach, UnclearRefusal:
			e.Owner = Client
			e.NextStep = "Ask the owner of the dataset to share it again (Business settings, Data sources, Datasets, Assign partner); what waits then goes out by itself."
		case PermissionMissing:
			e.Owner = Client
			e.NextStep = "Use the token of a system user that has the dataset assigned with the right to use events."
		default:
			e.Owner = Client
			e.NextStep = "Look at Account Quality and follow Meta's steps there; sending is tried again by itself."
		}
		return e
	case FindingDuplicateConflict:
		return Explanation{
			Title: "One event id is used for different people (" + f.Subject + ")", Owner: You, Severity: "warning",
			Cause:    "A page or form hands the same event id to every visitor, most often because a cache keeps it.",
			NextStep: "Make the event id when the page is shown to the visitor, not when it is built.",
		}
	case FindingShortCount:
		return Explanation{
			Title: "The destination counted fewer events than it was given (" + f.Subject + ")", Owner: Meta, Severity: "warning",
			Cause:    "The answer was a success with a smaller number; the events were sent again one by one under the same ids.",
			NextStep: "Nothing, unless it stays: then compare the counts in Events Manager.",
		}
	case FindingClock:
		return Explanation{
			Title: "Events come from the future (" + f.Subject + ")", Owner: You, Severity: "warning",
			Cause:    "The clock of the system that sends them is more than a minute ahead.",
			NextStep: "Set that clock (NTP). The events wait until their time has come.",
		}
	case FindingMaybeSent:
		return Explanation{
			Title: "Events that may have been sent need a decision (" + f.Subject + ")", Owner: You, Severity: "error",
			Cause:    "For 47 hours the connection broke after sending and no answer came.",
			NextStep: "Compare with Events Manager, then release or drop them: capiloop retry --held or --drop.",
		}
	case FindingCRM:
		return Explanation{
			Title: "Leads do not reach " + f.Subject, Owner: You, Severity: "error", Cause: Reason(f.Evidence).Sentence(),
			NextStep: "Run capiloop doctor: it says what the CRM refuses. What waits goes in by itself after the repair.",
		}
	case FindingSource:
		return Explanation{
			Title: "The leads of " + f.Subject + " cannot be read", Owner: Client, Severity: "error", Cause: Reason(f.Evidence).Sentence(),
			NextStep: "Give the token access to the page's leads again (Business settings, Integrations, Leads access); what was announced meanwhile is then read by itself.",
		}
	case FindingStages:
		return Explanation{
			Title: "What becomes of leads in " + f.Subject + " cannot be read", Owner: You, Severity: "error", Cause: Reason(f.Evidence).Sentence(),
			NextStep: "Run capiloop doctor: it says what the CRM refuses. The moves made meanwhile are read by themselves after the repair.",
		}
	case FindingGuard:
		return f.explainGuard()
	case FindingMapping:
		return f.explainMapping()
	case FindingDeadline:
		return f.explainDeadline()
	case FindingSequence, FindingVolume:
		return f.explainAdvice()
	case FindingDedupIDs, FindingDedupMissing:
		return f.explainDedup()
	case FindingSilence:
		return f.explainSilence()
	case FindingUnknownPage:
		return Explanation{
			Title: "Leads come from a page that no source has (" + f.Subject + ")", Owner: You, Severity: "warning",
			Cause:    "The app's webhook is subscribed to a page that the configuration does not name.",
			NextStep: "Add a source with this page_id, or take the app off the page.",
		}
	}
	return Explanation{Title: string(f.Kind), Severity: "warning", Owner: You}
}
