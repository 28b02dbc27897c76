// Package health answers, over HTTP, whether a process lives and whether it is ready.
//
//   - /healthz: every part's loops turn. 503 means that the process will not recover by
//     itself and should be started again; a store that is away is no reason.
//   - /readyz: every part does its work now: it is connected, what it owns is loaded, and
//     it is not leaving. 503 means that others should be asked meanwhile.
//
// Both answer one line for each part, so that a person sees which one it is. Nobody is
// asked for a credential, and nothing is told of users.
package health
