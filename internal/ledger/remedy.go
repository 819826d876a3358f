package ledger

// Remedy says what a person can do so that a delivery is not lost by its deadline. destination is
// where it goes.
func (r Reason) Remedy(destination string) string {
	decide := "Look at it, then send it with capiloop retry --held --reason " + string(r) + ", or skip it with --drop in the place of --held."
	switch r {
	case BulkChange, ValueOutlier, TestName, MaybeSent, NotCounted:
		return decide
	case TokenInvalid, PermissionMissing, DatasetOutOfReach, Blocked, UnclearRefusal:
		return "Run capiloop doctor and mend what it says of " + destination + "; then capiloop retry --now --destination " + destination + "."
	case FieldMissing, AddressGone:
		return "Run capiloop doctor: it says what " + destination + " lacks. What waits goes in by itself after the repair."
	case DestinationGone:
		return "Put " + destination + " back into the configuration, or confirm with capiloop retry --skip-removed " + destination + "."
	case Sequence:
		return "Look why the event that must go before it is not sent: capiloop leads with the lead's id shows both."
	case ClockAhead:
		return "Set the clock of the system that sent it; it goes when its time has come."
	case Throttled, Retrying, AnswerLost, Backlog:
		return "It is tried again by itself; if it lasts, run capiloop doctor."
	default:
		return "Nothing is to be done."
	}
}
