// Package store is the ledger's database and the only place with SQL. It runs on
// SQLite (one file, one process) and on PostgreSQL (several nodes), with the same
// statements: times are bigint microseconds, flags smallint, no now() in SQL. What
// must differ stands in forks.go.
//
// Everything that changes goes through one writer goroutine, which puts many
// requests into one transaction (group commit): each caller returns only after its
// data is on disk. Reading never waits for writing.
//
// The store has no field for a raw e-mail or phone: payloads come hashed.
package store
