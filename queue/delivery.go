package queue

import (
	"encoding/hex"
	"strconv"
)

// AppendDelivery appends the delivery object, on one line without its newline: what
// a consumer is sent, a command reads and a hook is posted. With lease it has the
// token and the deadline, which only who may settle by token needs.
//
// The exception is the sender's object byte for byte. All other text is spelled as
// records spell it: escaped where it is invisible, the same value after decoding.
// Nothing is allocated but the growth of dst and the token's text.
func AppendDelivery(dst []byte, d *Delivery, lease bool) []byte {
	m := &d.Message
	dst = append(dst, `{"event":"delivery"`...)
	if lease {
		dst = append(append(dst, `,"lease":"`...), d.Token.String()...)
		dst = append(dst, '"')
	}
	dst = strconv.AppendUint(append(dst, `,"seq":`...), m.Seq, 10)
	dst = appendString(dst, `,"route":`, string(d.Route))
	dst = strconv.AppendInt(append(dst, `,"delivery":`...), int64(d.Number), 10)
	dst = strconv.AppendInt(append(dst, `,"failed_attempts":`...), int64(d.FailedAttempts), 10)
	dst = strconv.AppendBool(append(dst, `,"redelivered":`...), d.Redelivered)
	dst = append(AppendTime(append(dst, `,"accepted_at":"`...), d.AcceptedAt), '"')
	if lease {
		dst = append(AppendTime(append(dst, `,"deadline":"`...), d.Deadline), '"')
	}
	dst = appendString(dst, `,"trace_id":`, m.TraceID)
	dst = appendString(dst, `,"idempotency_key":`, m.IdempotencyKey)
	dst = appendString(dst, `,"partition_key":`, m.PartitionKey)
	dst = append(hex.AppendEncode(append(dst, `,"source_hash":"`...), m.SourceHash[:]), '"')
	dst = append(append(dst, `,"exception":`...), m.Line...)
	return append(dst, '}')
}

func appendString(dst []byte, name, value string) []byte {
	return AppendText(append(dst, name...), value)
}
