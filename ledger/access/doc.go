// Package access says who may ask the ledger what.
//
// # What it owns
//
// The roles, the YAML in which they are given to accounts ([Parse]), and what follows
// from them for one who asks ([Rules.Reader]). Where the rules are kept is up to package
// store: beside the data, so that they hold for everybody who uses it, from wherever.
//
// # The roles
//
//   - An [Auditor] sees everything, to the millisecond, and operates the ledger.
//   - A [Lead] sees the users of the own team: how long, on which day, and no instants.
//   - An [Analyst] sees figures of groups, none of fewer users than the rules' minimum.
//
// Without rules everybody is an auditor. With rules, an account that they do not name
// has the role of all others, or none.
//
// # What it cannot do
//
// Rules bind whoever comes through the program. Who can read the database otherwise, the
// file of SQLite or the tables of PostgreSQL, sees what is in it.
package access
