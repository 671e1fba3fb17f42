package queue

import (
	"errors"
	"time"
)

// Why an attachment is refused. Neither is about the store: the consumer may ask again.
var (
	// ErrNameInUse: a live connection has the name (NAME_IN_USE).
	ErrNameInUse = errors.New("the name is in use by another connection")

	// ErrDraining: the process is about to stop and hands out nothing more (DRAINING).
	ErrDraining = errors.New("the process is draining")
)

// Attachment is a consumer that asks for work. Its Owner is of kind Consumer: the
// name that it chose, and the user id that the kernel vouches for.
type Attachment struct {
	Owner    Owner
	Peer     Peer
	Prefetch int           // at most so many unsettled deliveries
	Routes   RouteSet      // only these
	Lease    time.Duration // of each delivery
}

// Notice is what a consumer is told next. Deliveries come in the order in which they
// were leased; Ending are leases that are about to run out; Draining is said once:
// nothing more will be delivered, answers are still taken.
type Notice struct {
	Deliveries []Delivery
	Ending     []Ending
	Draining   bool
}

// Ending is a lease of which a third is left.
type Ending struct {
	Token    Token
	Deadline time.Time
}
