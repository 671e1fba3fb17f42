package socket

import (
	"strconv"
	"time"

	"breakwater/queue"
)

// The lines that the enqueue socket answers with, each with its members in the
// contract's order. They are appended by hand: a receipt costs some 60 ns and no
// memory, where reflection would cost as much as the rest of the edge together.

// retryAfter is when a producer that was refused for want of room may try again.
const retryAfter = 500 * time.Millisecond

// appendReceipt appends the receipt for a line, LF included. key is the line's
// idempotency key as far as it could be read.
func appendReceipt(dst []byte, number uint64, key string, r *queue.Receipt) []byte {
	dst = appendUint(append(dst, `{"line":`...), number)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, r.Status.String()...)
	dst = append(dst, '"')
	switch r.Status {
	case queue.Accepted:
		dst = appendSeqAndKey(dst, r.Seq, key)
	case queue.Duplicate:
		dst = appendDuplicate(dst, key, r)
	case queue.Conflict:
		dst = appendMember(dst, "code", string(r.Code))
		dst = appendNumber(dst, "seq", r.Seq)
		dst = appendNumber(dst, "of", r.Of)
		dst = appendMember(dst, "idempotency_key", key)
		dst = appendMember(dst, "error", r.Error)
	case queue.Quarantined:
		dst = appendMember(dst, "code", string(r.Code))
		dst = appendNumber(dst, "seq", r.Seq)
		dst = appendOptional(dst, "field", r.Field)
		dst = appendMember(dst, "error", r.Error)
	case queue.Rejected:
		dst = appendRejected(dst, r)
	}
	if r.Repeat {
		dst = append(dst, `,"repeat":true`...)
	}
	return append(dst, "}\n"...)
}

func appendSeqAndKey(dst []byte, seq uint64, key string) []byte {
	return appendMember(appendNumber(dst, "seq", seq), "idempotency_key", key)
}

func appendDuplicate(dst []byte, key string, r *queue.Receipt) []byte {
	dst = appendSeqAndKey(dst, r.Seq, key)
	dst = append(dst, `,"state":"`...)
	dst = append(append(dst, r.State.String()...), '"')
	dst = appendOptional(dst, "outcome", r.Outcome)
	if !r.SettledAt.IsZero() {
		dst = append(dst, `,"settled_at":"`...)
		dst = append(queue.AppendTime(dst, r.SettledAt), '"')
	}
	return dst
}

func appendRejected(dst []byte, r *queue.Receipt) []byte {
	dst = appendMember(dst, "code", string(r.Code))
	dst = appendOptional(dst, "reason", string(r.Reason))
	if r.Code == queue.CodeSaturated || r.Code == queue.CodeStorageUnavailable {
		dst = appendNumber(dst, "retry_after_ms", uint64(retryAfter.Milliseconds()))
	}
	return appendMember(dst, "error", r.Error)
}

// tally counts the receipts of a connection by status.
type tally struct {
	lines    uint64 // all of them
	byStatus [queue.Rejected + 1]uint64
}

func (t *tally) add(s queue.Status) {
	t.lines++
	t.byStatus[s]++
}

// appendEnd appends the line that closes a connection: the counts to reconcile
// against, and the head of the trail, which makes the producer a witness of it.
func appendEnd(dst []byte, t *tally, head queue.Head) []byte {
	dst = appendUint(append(dst, `{"event":"end","lines":`...), t.lines)
	for s := queue.Accepted; s <= queue.Rejected; s++ {
		dst = appendNumber(dst, s.String(), t.byStatus[s])
	}
	dst = appendUint(append(dst, `,"audit":{"block":`...), head.Block)
	dst = append(dst, `,"head":"`...)
	dst = append(dst, head.Hash.String()...)
	return append(dst, "\"}}\n"...)
}

// appendError appends the line for what concerns the connection, not one line of it.
func appendError(dst []byte, code queue.Code, text string) []byte {
	dst = append(dst, `{"event":"error"`...)
	dst = appendMember(dst, "code", string(code))
	dst = appendMember(dst, "error", text)
	return append(dst, "}\n"...)
}

// appendDropped appends the line that stands for receipts that nobody read in time.
func appendDropped(dst []byte, from, to uint64) []byte {
	dst = append(dst, `{"event":"receipts_dropped"`...)
	dst = appendNumber(dst, "from_line", from)
	dst = appendNumber(dst, "to_line", to)
	return append(dst, "}\n"...)
}

func appendMember(dst []byte, name, value string) []byte {
	dst = append(append(append(dst, ',', '"'), name...), '"', ':')
	return queue.AppendText(dst, value)
}

func appendOptional(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendMember(dst, name, value)
}

func appendNumber(dst []byte, name string, n uint64) []byte {
	dst = append(append(append(dst, ',', '"'), name...), '"', ':')
	return appendUint(dst, n)
}

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }
