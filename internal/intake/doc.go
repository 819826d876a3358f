// Package intake is the door for machines: events that come in over HTTP, by our
// own API, by Meta's SDKs pointed at us, and by the gateway hook that two of them
// have.
//
// Takes HTTP requests, gives back answers once the events are on disk. A wrong
// request is told what is wrong, where, and what would be right; when the database
// is out of reach or too busy the answer says so, and nothing was taken. It never
// calls out, and keeps nothing in memory but the addresses that guess at keys.
//
// Client address and user agent of an event are its payload's, never those of the
// server that sent it: a caller is a shop or a CRM, not the visitor.
package intake
