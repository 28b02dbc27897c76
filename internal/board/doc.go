// Package board serves a page on which people see who is online, and operators how the
// fabric is.
//
// # What it owns
//
// The page and what it asks this process for: the development sign-in, the figures of the
// fabric, who is online by name, and online time. Everything about other people the page
// reads by itself as a viewer, over NATS's WebSocket, so that it shows what its user may
// know and nothing else.
//
// The source of the page is in clients/js/board; `npm run build:board` there bundles it into
// assets, which are committed so that Go alone builds the command.
//
// # What it guarantees
//
//   - A page of another site cannot ask for anything: requests that name another origin
//     are refused, and on loopback those that name another host, which is how DNS
//     rebinding would come.
//   - What is for operators needs the operator's token, or a listener on loopback.
//   - Online time of a person is told under the ledger's rules of access, and noted in its
//     audit.
//   - The page runs no script but its own, and loads nothing from elsewhere.
//
// # How it fails
//
// Figures whose part does not answer are missing and named; the others are shown. Streams
// to a page end with its request, and pages ask again.
//
// # How to test against it
//
// [Board] is an http.Handler; see this package's tests for one beside a whole fabric in
// virtual time.
package board
