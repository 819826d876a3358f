// Package deliver sends what waits. Each destination has a lane of its own: claim a
// batch, send it, settle what became of it, so that one destination's trouble never
// blocks another's.
//
// Takes batches from the store, gives settlements back; may fail by nothing but the
// database. What a failure does to a lane is decided by pure functions in
// decide.go, after the ledger's outcomes. All state that must survive is in the
// store: a lane that is killed at any moment goes on where it was.
package deliver
