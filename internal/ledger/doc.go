// Package ledger holds the product's words as Go types and their rules: an event
// and its deliveries, the states and reasons a delivery can have, the outcomes an
// ad platform can give, when to try again and when to give up.
//
// It is pure: no database, no network, no files, no clock of its own. Every other
// package speaks in its types; it imports nothing of ours but package capi.
package ledger
