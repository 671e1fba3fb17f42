package queue

import (
	"math/bits"
	"time"
)

// OnDeadLetter says what a key does when one of its messages becomes a dead letter.
type OnDeadLetter uint8

// The two choices: the key waits for a person, or it goes on and the gap is recorded.
const (
	HoldKey OnDeadLetter = iota // the default: order before progress
	SkipDead
)

// Policy is how failures are counted and spaced. It is an argument of each call
// that needs it, so that a reload has no state to change in a store.
type Policy struct {
	MaxAttempts   int // failures until ATTEMPTS_EXHAUSTED
	MaxDeliveries int // deliveries until DELIVERIES_EXHAUSTED
	RetryInitial  time.Duration
	RetryMax      time.Duration
	OnDeadLetter  OnDeadLetter
}

// RetryDelay returns how long a key waits after the n-th failure (n from 1):
// d/2 + random(d/2) with d = min(RetryMax, RetryInitial·2^(n−1)), never below
// after, and after never above RetryMax. random is uniform over all uint32.
//
// The doubling stops at the cap instead of being shifted: 1s<<34 is negative.
func (p Policy) RetryDelay(n int, random uint32, after time.Duration) time.Duration {
	d := p.RetryInitial
	for i := 1; i < n && d < p.RetryMax; i++ {
		d *= 2 // RetryMax is far below half of the type's range
	}
	d = min(d, p.RetryMax)
	half := d / 2
	// The product's high word is half·random/2³², without overflow.
	share, _ := bits.Mul64(uint64(half), uint64(random)<<32)
	return max(half+time.Duration(share), min(after, p.RetryMax))
}

// Limits bounds what Admit takes. Zero means no limit. A reached limit refuses
// new lines with QUEUE_SATURATED and its reason; duplicates are still answered.
type Limits struct {
	MaxBacklog     int64 // ready + scheduled + leased + held
	MaxOpenKeys    int64 // distinct partition keys with open messages
	MaxDeadLetters int64
	MaxLedgerKeys  int64
	MaxStoreBytes  int64 // the file; free space inside it counts as room
	MinFreeBytes   int64 // left on the disk; free space inside the file counts as room
}

// Saturation names the limit that was reached.
type Saturation string

// The reasons of QUEUE_SATURATED.
const (
	FullBacklog     Saturation = "max_backlog"
	FullOpenKeys    Saturation = "max_open_keys"
	FullDeadLetters Saturation = "max_dead_letters"
	FullLedger      Saturation = "max_ledger_keys"
	FullStore       Saturation = "max_store_bytes"
	FullDisk        Saturation = "min_free_bytes"
)
