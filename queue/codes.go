package queue

import (
	"errors"
	"fmt"
)

// Code is a stable word that programs branch on. The text beside a code may
// change; the code never does.
type Code string

// The codes that leave this package. The first four are the mission's; each is
// raised, logged with the ids of the message concerned, and counted.
const (
	CodeSaturated   Code = "QUEUE_SATURATED" // a limit is reached; nothing was stored
	CodeExpired     Code = "LEASE_EXPIRED"   // the lease is over; the answer changed nothing
	CodePoison      Code = "POISON_MESSAGE"  // a gate failed; the line is quarantined
	CodeConsumerLag Code = "CONSUMER_LAG"    // the oldest claimable exception is too old

	CodeConflict            Code = "IDEMPOTENCY_CONFLICT" // a known key with other content
	CodeRejected            Code = "REJECTED"             // a handler or consumer refused it for good
	CodeAttemptsExhausted   Code = "ATTEMPTS_EXHAUSTED"   // max_attempts failures
	CodeDeliveriesExhausted Code = "DELIVERIES_EXHAUSTED" // max_deliveries without a settlement

	CodeHandlerUnavailable Code = "HANDLER_UNAVAILABLE"
	CodeAlreadySettled     Code = "ALREADY_SETTLED"
	CodeNameInUse          Code = "NAME_IN_USE"
	CodeIncompleteLine     Code = "INCOMPLETE_LINE"
	CodeDraining           Code = "DRAINING"
	CodeStorageUnavailable Code = "STORAGE_UNAVAILABLE"
	CodeUsage              Code = "USAGE"
	CodeNotFound           Code = "NOT_FOUND"
	CodeInternal           Code = "INTERNAL"
)

// Why a consumer is not attached, or not any more.
var (
	// ErrNameInUse (NAME_IN_USE): the name is that of a consumer that is attached,
	// whoever runs it.
	ErrNameInUse = errors.New("the name is in use by an attached consumer")

	// ErrDraining (DRAINING): nothing new is begun. A consumer keeps its leases: an
	// answer that came too late may be given after the restart.
	ErrDraining = errors.New("shutting down")

	// ErrDetached: the consumer has left, or its connection is gone.
	ErrDetached = errors.New("the consumer is not attached any more")
)

// What a Store's calls return besides their results. They are about the call or
// the store; what is wrong with a single message, line or lease is a Code in the
// result for it.
var (
	// ErrClosed: the store was closed; nothing of the call was applied.
	ErrClosed = errors.New("store is closed")

	// ErrFailed: a write failed in a way after which nobody can know what is on
	// the disk. Nothing was answered and nothing may be: the process ends, and
	// the next start reads what is really there (fail-stop).
	ErrFailed = errors.New("store has failed and must be reopened")

	// ErrNoRoom: the disk or a size limit refused the write, cleanly. The call
	// changed nothing and may be made again.
	ErrNoRoom = errors.New("no room to store")

	// ErrNotFound: no such message, key or record.
	ErrNotFound = errors.New("not found")

	// ErrTrimmed: there was such a message; it is over, and retention has removed its
	// records from the trail. It is an ErrNotFound.
	ErrTrimmed = fmt.Errorf("%w: it is over, and its records were removed by retention", ErrNotFound)

	// ErrDamaged: stored bytes do not match their checksum, or a record does not
	// decode. The message says which; it is never delivered.
	ErrDamaged = errors.New("stored data is damaged")
)
