// Package report puts figures together for people: how far leads came, and by what.
//
// Takes counts and leads out of the store, gives back what a page, a table or a machine
// shows. It writes nothing, calls nobody, and shows nothing of who a lead is.
package report
