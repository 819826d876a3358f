// Package admin is what a person may do: one method per action, whoever asks. The
// pages, the API and the commands are its faces and hold no rule of their own.
//
// Takes an Actor, whose right every action checks, and the name of a workspace;
// gives back the types of this package, which are also the JSON that machines read.
// It fails with an *Error, which a person can mend, or with whatever the database
// says.
//
// A command beside a running server cannot open its database. It calls the same
// methods through a socket: Handler serves them, Client calls them, and both ends
// satisfy Actions.
package admin
