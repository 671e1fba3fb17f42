package socket

import (
	"time"

	"breakwater/queue"
)

// The lines that the consume socket sends, each with its members in the contract's
// order. Deliveries are spelled by queue.AppendDelivery.

func appendAttached(dst []byte, name string, lease time.Duration) []byte {
	dst = append(dst, `{"event":"attached"`...)
	dst = appendMember(dst, "consumer", name)
	dst = appendNumber(dst, "lease_timeout_ms", uint64(lease.Milliseconds()))
	return append(dst, "}\n"...)
}

// appendNotAttached appends the answer to who cannot be attached now.
func appendNotAttached(dst []byte, name string, code queue.Code, text string) []byte {
	dst = append(dst, `{"event":"refused"`...)
	dst = appendMember(dst, "consumer", name)
	dst = appendMember(dst, "code", string(code))
	dst = appendMember(dst, "error", text)
	return append(dst, "}\n"...)
}

func appendDelivery(dst []byte, d *queue.Delivery) []byte {
	return append(queue.AppendDelivery(dst, d, true), '\n')
}

func appendEnding(dst []byte, e *queue.Ending) []byte {
	dst = appendLease(append(dst, `{"event":"lease_ending"`...), e.Token)
	return append(appendDeadline(dst, e.Deadline), "}\n"...)
}

// appendReply appends the answer to an answer.
func appendReply(dst []byte, a *said) []byte {
	t := a.settlement.Token
	switch {
	case a.fault != "":
		return appendFault(dst, a.line, a.fault)
	case a.code != "":
		dst = appendLease(append(dst, `{"event":"refused"`...), t)
		dst = appendMember(dst, "code", string(a.code))
		dst = appendMember(dst, "error", a.why)
	case a.kind == extend:
		dst = appendLease(append(dst, `{"event":"extended"`...), t)
		dst = appendDeadline(appendNumber(dst, "seq", a.seq), a.deadline)
	default:
		dst = appendLease(append(dst, `{"event":"settled"`...), t)
		dst = appendNumber(dst, "seq", a.seq)
	}
	return append(dst, "}\n"...)
}

// appendFault appends what is wrong with a line.
func appendFault(dst []byte, number uint64, text string) []byte {
	dst = append(dst, `{"event":"error"`...)
	dst = appendMember(dst, "code", string(queue.CodeUsage))
	dst = appendNumber(dst, "line", number)
	dst = appendMember(dst, "error", text)
	return append(dst, "}\n"...)
}

// appendEvent appends an event that says it all.
func appendEvent(dst []byte, event string) []byte {
	return append(append(append(dst, `{"event":"`...), event...), "\"}\n"...)
}

func appendLease(dst []byte, t queue.Token) []byte {
	dst = append(append(dst, `,"lease":"`...), t.String()...)
	return append(dst, '"')
}

func appendDeadline(dst []byte, t time.Time) []byte {
	return append(queue.AppendTime(append(dst, `,"deadline":"`...), t), '"')
}
