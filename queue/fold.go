package queue

import "time"

// Fold applies a record to what is known of its message, so that the state of a
// message can be derived from the trail alone: for settled ones, whose bytes are
// not kept, and to check stored state against the evidence. Records must come in
// the order of the trail; those that are copies (see trim.go) tell what they always did,
// and the records of the message's own what has become of it since.
func (x *Exception) Fold(r *Record) {
	if r.CopyOf != 0 {
		x.foldCopy(r)
		return
	}
	if r.Event == EventRefused {
		return // it changed nothing
	}
	if x.Seq == 0 && r.Event != EventAccepted && r.Event != EventQuarantined {
		x.meet(r)
	}
	x.Unanswered = max(x.Unanswered, r.Unanswered)
	switch r.Event {
	case EventAccepted, EventQuarantined:
		x.begin(r)
	case EventDue:
		x.Place, x.State = r.Place, Ready
	case EventDispatched:
		x.State, x.Owner, x.Deadline, x.Deliveries = Leased, r.Worker, r.Deadline, r.Delivery
	case EventExtended:
		x.Deadline = r.Deadline
	case EventDecided:
		x.end(Done, r)
		x.Outcome = r.Outcome
	case EventDiscarded:
		x.end(Discarded, r)
	case EventRetried:
		x.State, x.FailedAttempts, x.DueAt = Held, r.FailedAttempts, r.Until
	case EventHeld:
		x.State, x.DueAt, x.Deliveries = Held, r.Until, r.Delivery-1
	case EventReleased:
		x.State, x.Deliveries = Ready, r.Delivery-1
	case EventReclaimed:
		x.State, x.Deliveries = Ready, r.Delivery
		if r.Unanswered == 0 {
			x.Deliveries--
		}
	case EventDeadLettered:
		x.State, x.Code, x.Reason, x.DeadAt = Dead, r.Code, r.Reason, r.TS
		x.Deaths++
	case EventEdited:
		x.Stored, x.EditedHash = r.stored(), r.LineSHA256
	case EventKeyReleased: // of the wait that the message had put on its key
		if x.State == Held {
			x.State = Ready
		}
	case EventReplayed:
		x.State, x.Deliveries, x.FailedAttempts = Ready, 0, 0
		x.Code, x.Reason, x.Field, x.Of, x.DeadAt = "", "", "", 0, time.Time{}
	}
	if x.State != Leased {
		x.Owner, x.Deadline = "", time.Time{}
	}
	if x.State != Held && x.State != Scheduled {
		x.DueAt = time.Time{}
	}
}

// begin takes what the first record of a message says. A replayed quarantined
// line has both a QUARANTINED and, later, an ACCEPTED record.
func (x *Exception) begin(r *Record) {
	x.Stored = r.stored()
	if x.AcceptedAt.IsZero() { // a replay makes no line younger
		x.AcceptedAt = r.TS
	}
	if x.EditedHash == (Hash{}) { // else the line that was sent came before
		x.LineBytes, x.LineHash = r.LineBytes, r.LineSHA256
	}
	x.Route = r.Route
	if r.Event == EventQuarantined {
		x.Deaths++
		x.State, x.Code, x.Reason = Dead, r.Code, r.Reason
		x.Field, x.Of, x.DeadAt = r.Field, r.Of, r.TS
		return
	}
	x.NotBefore = r.NotBefore
	if r.NotBefore.After(r.TS) {
		x.State = Scheduled
	} else {
		x.State, x.Place = Ready, Place{Seq: r.Seq}
	}
}

// meet takes what any record of a message says of it, for want of its first.
func (x *Exception) meet(r *Record) {
	x.Trimmed = true
	x.Stored = Stored{
		Seq: r.Seq, TraceID: r.TraceID, SourceHash: r.SourceHash, Decision: r.MatchDecision,
		PartitionKey: r.PartitionKey, Amount: r.Amount,
	}
}

// foldCopy applies a copy. All that it tells held when it was made; but the state that a
// message began with only counts while nothing else has told of a later one.
func (x *Exception) foldCopy(r *Record) {
	if x.Seq == 0 {
		x.meet(r)
	}
	x.Trimmed = true
	x.Unanswered = max(x.Unanswered, r.Unanswered)
	switch r.Event {
	case EventQuarantined, EventAccepted:
		x.foldFirst(r)
	case EventEdited:
		x.Stored, x.EditedHash = r.stored(), r.LineSHA256
	case EventDue:
		if x.Place = r.Place; x.State == 0 || x.State == Scheduled {
			x.State = Ready
		}
	case EventDispatched:
		x.State, x.Owner, x.Deadline, x.Deliveries = Leased, r.Worker, r.Deadline, r.Delivery
	case EventDeadLettered:
		x.State, x.Code, x.Reason, x.DeadAt = Dead, r.Code, r.Reason, r.TS
	}
}

// foldFirst applies a copy of the record by which a message got its seq, or its place.
// Of a line that was replayed there are both, in any order.
func (x *Exception) foldFirst(r *Record) {
	was := *x
	begun := was.State != 0 && (was.State != Dead || !atDoor(was.Code))
	if r.Event == EventQuarantined && begun {
		x.LineBytes, x.LineHash = r.LineBytes, r.LineSHA256 // as it was sent
		return
	}
	x.begin(r)
	if was.EditedHash != (Hash{}) {
		x.Stored = was.Stored
	}
	if x.LineBytes, x.LineHash = r.LineBytes, r.LineSHA256; was.LineHash != (Hash{}) {
		x.LineBytes, x.LineHash = was.LineBytes, was.LineHash
	}
	if !was.Place.IsZero() {
		x.Place = was.Place
	}
	switch {
	case begun:
		x.State = was.State
	case r.Event == EventAccepted:
		x.Code, x.Reason, x.Field, x.Of, x.DeadAt = "", "", "", 0, time.Time{}
	}
}

// stored is what a record that carries all of a message's members says of it.
func (r *Record) stored() Stored {
	return Stored{
		Seq: r.Seq, IdempotencyKey: r.IdempotencyKey, TraceID: r.TraceID,
		PartitionKey: r.PartitionKey, LedgerEntity: r.LedgerEntity,
		Decision: r.MatchDecision, Amount: r.Amount, Currency: r.Currency,
		SourceHash: r.SourceHash,
	}
}

// end marks the message as settled.
func (x *Exception) end(s State, r *Record) {
	x.State, x.SettledAt = s, r.TS
}
