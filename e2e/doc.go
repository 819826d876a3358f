// Package e2e tests the built binary from outside: events in over HTTP, the strict
// stand-in for Graph in Meta's place, faults and kills in between. It knows of the
// product only what a user knows: commands, configuration, HTTP.
//
// Each test looks afterwards at everything the product said and stored: no access
// token anywhere, no raw contact data in logs or in the database.
package e2e
