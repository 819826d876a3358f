// Package config reads capiloop.yaml into typed, checked settings.
//
// In goes a file and the environment that its ${NAMES} are taken from. Out comes
// either a File, or an *Error that lists everything that is wrong with it, each with
// line and column, what is the matter and what would be right. Once the store has
// given ids to what the file declares, File.Snapshot makes the Snapshot that all
// other code reads, through Live.
//
// Nothing is guessed or passed over: an unknown key, a key that stands twice and a
// variable that is not set are errors. No text of an error holds a secret.
package config
