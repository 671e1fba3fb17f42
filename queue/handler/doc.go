// Package handler has the handlers that are built in: what becomes of an
// exception that is not left to consumers.
//
//	log     acks; the record in the trail is the effect
//	exec    runs a command for each delivery
//	http    posts each delivery to a URL: TCP, TLS or a Unix socket
//
// A handler is given one delivery at a time and returns an [queue.Answer]. It knows
// nothing of leases, stores or scheduling, and it never decides that an exception
// is lost: whatever cannot be understood as success is a retry, whatever could not
// even begin is "handler unavailable", which counts as nothing.
//
// # What a command is given
//
// The delivery object on its standard input, as one line: see [queue.AppendDelivery]. In
// a clean environment: PATH, the variables its configuration names, and
// BREAKWATER_SEQ, _IDEMPOTENCY_KEY, _TRACE_ID, _ROUTE, _DELIVERY and _REDELIVERED.
// A value that an environment cannot carry (a NUL byte) is left out rather than
// changed: two keys must never look like one. The object always has it.
//
// # What its exit says
//
//	0              what the first line of its output says (ParseAnswer), else ack
//	65             reject: to the dead letters
//	69, 77, 78     unavailable: the route waits, nothing is counted
//	75, all others retry; death by a signal, and at the time limit, too
//
// What exits by itself has answered, also if it was sent SIGTERM before a limit; what
// dies of a signal has not, and whoever gets it next is told that its effect may exist
// ([queue.Answer]'s Unanswered). So is who gets what a hook was sent and did not answer.
//
// These are the names of sysexits.h: EX_DATAERR, EX_UNAVAILABLE, EX_NOPERM,
// EX_CONFIG, EX_TEMPFAIL.
//
// # How it ends
//
// A command leads a session of its own. When it has ended, the rest of its process
// group is killed, and unless it has succeeded the rest of its session, in whatever
// groups (timeout and job control make some): nothing of a delivery may still be at
// work when the next one of its key begins. If the daemon itself is killed, the kernel
// kills the command, and package kin what that has started. A redelivery says so
// (BREAKWATER_REDELIVERED), and the delivery's number tells old from new.
//
// # What a hook is sent, and what its status says
//
// A POST of the same object, with Idempotency-Key (the key as it is where a header
// can carry it, else its base64 between colons), and traceparent where the trace id
// is one of W3C Trace Context.
//
//	2xx                      what the body says (ParseAnswer), else ack
//	408, 409, 425, other 5xx retry, no sooner than Retry-After
//	429, 502, 503, 504       unavailable: the route waits, nothing is counted
//	no status                unavailable: refused, reset, bad TLS, no HTTP
//	the time limit           retry; unavailable if there was no connection
//	all others               reject, redirects too: none is followed
//
// A try is bounded: in time, in the connections that it shares with the others, in
// the header and body that are read. What the other end says becomes part of a
// reason, on one line, shortened, and without the secrets that it was sent.
package handler
