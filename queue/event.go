package queue

import "slices"

// Event names what a record of the trail tells. The words are fixed (contract,
// section 6): auditors' scripts branch on them.
type Event string

// Events of one message. Every change of its state is one of them, written in the
// transaction that makes the change (P3, P10).
const (
	EventAccepted         Event = "ACCEPTED"          // took its seq and entered the order, or waits for its time
	EventQuarantined      Event = "QUARANTINED"       // a dead letter from the door: a gate failed, or a conflict (code, of)
	EventDue              Event = "DUE"               // a scheduled message got its place
	EventDispatched       Event = "DISPATCHED"        // leased to a worker or consumer
	EventDecided          Event = "DECIDED"           // settled, with an outcome; the last record of most messages
	EventRetried          Event = "RETRIED"           // failed; keeps its place
	EventReleased         Event = "RELEASED"          // put back; counts as nothing
	EventHeld             Event = "HELD"              // its key waits until a time that the handler named
	EventExtended         Event = "EXTENDED"          // a consumer's lease runs its full length again
	EventReclaimed        Event = "RECLAIMED"         // its lease expired, or its holder died
	EventRefused          Event = "REFUSED"           // a stale answer, which changed nothing (P4)
	EventDeadLettered     Event = "DEAD_LETTERED"     // follows the RETRIED or RECLAIMED that was the last
	EventReplayed         Event = "REPLAYED"          // back from the dead letters
	EventDiscarded        Event = "DISCARDED"         // ended by an operator, with a reason
	EventEdited           Event = "EDITED"            // an operator changed its content; the original is kept
	EventDuplicateSkipped Event = "DUPLICATE_SKIPPED" // one per commit: count, and the seqs of the firsts
)

// Events of keys and of the system.
const (
	EventKeyHeld       Event = "KEY_HELD"
	EventKeyReleased   Event = "KEY_RELEASED"
	EventPaused        Event = "PAUSED"
	EventResumed       Event = "RESUMED"
	EventAttached      Event = "ATTACHED"
	EventDetached      Event = "DETACHED"
	EventConfigChanged Event = "CONFIG_CHANGED"
	EventStarted       Event = "STARTED"
	EventDrained       Event = "DRAINED"
	EventArchived      Event = "ARCHIVED"
	EventTrimmed       Event = "TRIMMED"
	EventRestored      Event = "RESTORED"
)

// Events lists every event, those of a message first: what a flag completes to,
// and what a reader's table of counts begins with.
var Events = [...]Event{
	EventAccepted, EventQuarantined, EventDue, EventDispatched, EventDecided, EventRetried,
	EventReleased, EventHeld, EventExtended, EventReclaimed, EventRefused, EventDeadLettered,
	EventReplayed, EventDiscarded, EventEdited, EventDuplicateSkipped,
	EventKeyHeld, EventKeyReleased, EventPaused, EventResumed, EventAttached, EventDetached,
	EventConfigChanged, EventStarted, EventDrained, EventArchived, EventTrimmed, EventRestored,
}

// messageEvents is how many of Events, from the first, are about messages.
const messageEvents = 16

// OfKey reports whether e concerns a partition key. No message of it, but for a release
// that ended the wait of one: that record names the message as its own do.
func (e Event) OfKey() bool { return e == EventKeyHeld || e == EventKeyReleased }

// OfMessage reports whether e concerns one message, so that its record carries
// trace_id, source_hash and match_decision. DUPLICATE_SKIPPED stands for many and
// names them by seq.
func (e Event) OfMessage() bool {
	return e != EventDuplicateSkipped && slices.Contains(Events[:messageEvents], e)
}
