// Package checkpoint signs heads of the trail and checks such signatures: the
// evidence that is kept outside the store's file.
//
// The trail is a chain of hashes, so its head stands for all of it: no earlier record
// can be changed without the head becoming another. What the chain itself cannot show
// is that its end was cut off, or that all of it was written anew by somebody who can
// write the file. A checkpoint can: it says "the trail of this store had so many
// records and this head, at this time", and is signed with a key that whoever writes
// the file need not have. Verified later against a copy, it proves that the copy
// begins with exactly those records. It says nothing of records after it.
//
// # Form
//
// A checkpoint is a C2SP tlog-checkpoint (c2sp.org/tlog-checkpoint) in a C2SP signed
// note (c2sp.org/signed-note), with an Ed25519 key. Golang.org/x/mod/sumdb/note, which
// the Go module mirror runs on, does the signing; other implementations read the same
// bytes. The text is lines: the origin, which names the store; the number of records;
// the hash of the head in base64; and two extension lines, the head's block and the
// time:
//
//	breakwater/5f0c6b0f7b0a4e8f9d1c2b3a49586776
//	61
//	Zk2mS0mDkJ3h1m2dPq1mJc0e9yq3l1m9u5v0mR8v6Qk=
//	block 17
//	time 2026-12-01T17:00:00.000000Z
//
//	— branch-7/breakwater Bm…
//
// The hash is that of our chain of blocks, not of a Merkle tree: tools that check
// signatures work with it, tools that check inclusion proofs do not.
//
// In a file checkpoints stand one after the other, a blank line between them. On
// standard output and in syslog, where lines of others come between, each is one line
// of JSON, {"checkpoint":"…"}, with the same bytes in it. [Read] takes both, so that a
// journal can be handed over as it is.
//
// # Keys
//
// A key has a name, which stands beside each signature, and 32 bits of a hash that
// tell keys of one name apart. The private key is a file of one line that only its
// owner can read; the public one ("verifier key") is one line of text as well, and no
// secret: it belongs with the auditor, and anywhere but only beside the file. Several
// public keys, one a line, are taken where one is: after a change of key, checkpoints
// of both are checked.
package checkpoint
