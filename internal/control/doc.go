// Package control is the operators' door: HTTP/1.1 with JSON over control.sock, and
// the metrics page over TCP.
//
// # What can be asked
//
//	GET  /healthz                      the process answers
//	GET  /readyz                       it takes lines, its store commits, its routes move
//	GET  /metrics                      for Prometheus
//	GET  /v1/status                    the counts
//	GET  /v1/exceptions                open ones, paged; or by idempotency_key, trace_id
//	GET  /v1/exceptions/{seq}          one, whatever its state, with its history
//	GET  /v1/exceptions/{seq}/why      why it does not run
//	GET  /v1/keys                      partition keys, those to look at first
//	GET  /v1/keys/why                  why nothing of one runs
//	GET  /v1/dead-letters[/{seq}]      in the order of replays
//	GET  /v1/dead-letters/groups       counted by why they are dead
//	GET  /v1/leases                    who holds what
//	GET  /v1/audit                     records of the trail, as NDJSON
//	POST /v1/audit/verify              checks the live file's chain and trail
//	GET  /v1/archive                   how far the archive is that is being made
//	POST /v1/archive                   a checked copy of the store, when it is done
//	POST /v1/pause, resume, drain, reload
//	POST /v1/dead-letters/replay, discard, edit
//	POST /v1/keys/hold, release
//	POST /v1/leases/revoke
//
// Bodies and answers are the types of package api. Whatever is not a success is a
// problem document (RFC 9457) with one of the product's codes.
//
// # Who may ask
//
// The socket's mode decides; there is no password to leak. Who it was (SO_PEERCRED)
// is recorded with every act, in the transaction of the act.
//
// # What it costs
//
// An operator who looks must not slow down the queue. A list is read in short steps,
// each a read of its own, and ends early when it has looked at enough; the trail is
// read outside of any transaction; nobody can make the server hold more than a few
// MiB for a request. A client that goes away ends what it asked for. Limits are the
// constants of this package.
package control
