package queue

import "crypto/sha256"

// SourceHash returns the SHA-256 of
//
//	idempotency_key ":" ledger_entity ":" amount ":" match_decision
//
// with the amount as [Amount.Canonical] gives it, so that a Python pipeline
// that hashes str(Decimal(s)) computes the same value.
//
// The parts are joined, not length-prefixed, because other programs depend on
// the form. Two different messages of one idempotency key still never share
// it: amount and decision hold no colon, so the end can only be read one way,
// and the key is known.
func SourceHash(idempotencyKey, ledgerEntity, canonicalAmount string, d MatchDecision) Hash {
	var room [256]byte // enough for all but very long keys; those cost an allocation
	b := append(room[:0], idempotencyKey...)
	b = append(b, ':')
	b = append(b, ledgerEntity...)
	b = append(b, ':')
	b = append(b, canonicalAmount...)
	b = append(b, ':')
	b = append(b, d...)
	return sha256.Sum256(b)
}

// LineHash returns the SHA-256 of a line's bytes: the evidence of what was
// sent, and what tells a repeated quarantined line from a new one.
func LineHash(line []byte) Hash { return sha256.Sum256(line) }
