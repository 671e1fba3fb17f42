package queue

import "time"

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
