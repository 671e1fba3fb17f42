package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"breakwater/queue"
)

// submit makes the submission that a line in the notation stands for, through the
// real gates.
func submit(now time.Time, spec string) (queue.Submission, error) {
	line, err := lineOf(now, spec)
	if err != nil {
		return queue.Submission{}, err
	}
	return submission([]byte(line)), nil
}

// submission judges a line as the door does.
func submission(line []byte) queue.Submission {
	m, err := queue.ParseLine(line)
	s := queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)}
	var failed *queue.GateError
	if errors.As(err, &failed) {
		s.Fault = &queue.Fault{Field: failed.Field, Reason: failed.Reason}
	}
	return s
}

// lineOf spells a line of the notation in JSON.
func lineOf(now time.Time, spec string) (string, error) {
	if raw, ok := strings.CutPrefix(spec, "!"); ok {
		return raw, nil
	}
	words := strings.Fields(spec)
	id, key, ok := strings.Cut(words[0], "@")
	if !ok {
		return "", fmt.Errorf("%q is not id@key", words[0])
	}
	members := map[string]string{
		"trace_id": "t-" + id, "ledger_entity": "E-" + key, "match_decision": "PARTIAL", "variance_amount": "-1042.37",
	}
	order := []string{"trace_id", "ledger_entity", "match_decision", "variance_amount"}
	for _, w := range words[1:] {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return "", fmt.Errorf("%q is not name=value", w)
		}
		name, value = longForm(now, name, value)
		if _, known := members[name]; !known {
			order = append(order, name)
		}
		members[name] = value
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"idempotency_key":%q,"partition_key":%q`, id, key)
	for _, name := range order {
		if name == "priority" {
			fmt.Fprintf(&b, `,"priority":%s`, members[name])
		} else {
			fmt.Fprintf(&b, `,%q:%q`, name, members[name])
		}
	}
	return b.String() + "}", nil
}

// longForm undoes the notation's abbreviations.
func longForm(now time.Time, name, value string) (string, string) {
	switch name {
	case "amount":
		name = "variance_amount"
	case "entity":
		name = "ledger_entity"
	case "decision":
		name = "match_decision"
	case "trace":
		name = "trace_id"
	case "route":
		if value == "auto" {
			value = string(queue.AutoResolve)
		}
	case "not_before":
		if d, err := time.ParseDuration(value); err == nil {
			value = now.Add(d).UTC().Format(time.RFC3339Nano)
		}
	}
	return name, value
}

// ids names deliveries by the idempotency keys of their messages.
func ids(ds []queue.Delivery) string {
	names := make([]string, len(ds))
	for i := range ds {
		names[i] = ds[i].Message.IdempotencyKey
	}
	return strings.Join(names, " ")
}

// receiptText spells a receipt so that a test can expect it: "accepted 1",
// "duplicate 1 ready", "conflict 2 of 1: currency differs".
func receiptText(r queue.Receipt) string {
	s := r.Status.String()
	if r.Seq != 0 {
		s += " " + strconv.FormatUint(r.Seq, 10)
	}
	switch r.Status {
	case queue.Duplicate:
		s += " " + r.State.String()
	case queue.Conflict:
		s += fmt.Sprintf(" of %d: %s", r.Of, r.Error)
	case queue.Quarantined:
		s += " " + r.Field
	case queue.Rejected:
		s += " " + string(r.Reason)
	}
	if r.Outcome != "" {
		s += " " + r.Outcome
	}
	if r.Repeat {
		s += " (repeat)"
	}
	return s
}

// statusText spells the counters that are not zero.
func statusText(st queue.StoreStatus) string {
	var parts []string
	for _, c := range []struct {
		name string
		n    int64
	}{
		{"ready", st.Ready},
		{"scheduled", st.Scheduled},
		{"leased", st.Leased},
		{"held", st.Held},
		{"done", st.Done},
		{"dead", st.Dead},
		{"discarded", st.Discarded},
		{"quarantined", st.Quarantined},
		{"open_keys", st.OpenKeys},
		{"held_keys", st.HeldKeys},
		{"ledger", st.LedgerKeys},
	} {
		if c.n != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", c.name, c.n))
		}
	}
	return strings.Join(parts, " ")
}

// recordText spells what a record says: the event, the message by its idempotency
// key where the test knows it, and what belongs to the event.
func recordText(r *queue.Record, name func(seq uint64) string) string {
	s := string(r.Event)
	if r.Seq != 0 {
		s += " " + name(r.Seq)
	}
	if r.PartitionKey != "" && r.Seq == 0 {
		s += " " + r.PartitionKey
	}
	if r.Code != "" {
		s += " " + string(r.Code)
	}
	if !r.Place.IsZero() {
		s += " " + r.Place.String()
	}
	if r.Unanswered != 0 {
		s += " unanswered=" + strconv.Itoa(r.Unanswered)
	}
	if r.Count != 0 {
		s += " " + strconv.Itoa(r.Count) + "x"
		for _, seq := range r.Seqs {
			s += " " + name(seq)
		}
	}
	return s
}
