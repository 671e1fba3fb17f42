package queue

import (
	"errors"
	"time"
)

// MaxHeldKeys bounds the partition keys that operators hold at once, with open
// messages or without. Each is kept in memory, by name.
const MaxHeldKeys = 10_000

// TooManyHolds is the error of a hold beyond that, whose code is QUEUE_SATURATED.
const TooManyHolds = "as many keys are held as can be: release some first"

// NotHeldText is the error of a release of a key of which it undoes nothing.
func NotHeldText(a *Action) string {
	if a.Waits {
		return "no operator holds this key, and it waits for no time"
	}
	return "no operator holds this key"
}

// KeyState says what becomes of a partition key at the moment. What a person has to
// look at first comes first.
type KeyState uint8

// The states of a key. One that is leased and waits besides is KeyBlocked or KeyHeld.
// There is no state of a key that moves between owners: it is KeyBusy until its last
// lease ends, whoever is to have it next.
const (
	KeyBlocked KeyState = iota + 1 // it waits for a dead letter, or for damaged bytes: only a person can end that
	KeyHeld                        // it waits for an operator, for a retry, or until a time that a handler named
	KeyBusy                        // somebody holds messages of it
	KeyReady                       // its first message can be claimed
)

// KeyStates lists the states, in the order of a list of keys.
var KeyStates = [...]KeyState{KeyBlocked, KeyHeld, KeyBusy, KeyReady}

var keyStates = [...]string{KeyBlocked: "blocked", KeyHeld: "held", KeyBusy: "busy", KeyReady: "ready"}

// String returns the state as the API and the command line spell it.
func (s KeyState) String() string {
	if int(s) < len(keyStates) && s != 0 {
		return keyStates[s]
	}
	return "unknown"
}

// ParseKeyState reads what String writes.
func ParseKeyState(text string) (KeyState, bool) {
	for _, s := range KeyStates {
		if s.String() == text {
			return s, true
		}
	}
	return 0, false
}

// KeyQuery asks for a page of the partition keys that have an open message with a
// place, a dead letter that they wait for, or an operator's hold. A key of which
// everything is scheduled is not among them: it is nowhere in the order yet.
type KeyQuery struct {
	Now   time.Time
	State KeyState // only keys in this state; 0: all
	After string   // the Next of the page before; "": from the beginning
	Limit int      // at most so many
}

// KeyPage is a part of a list of keys: by state, and within a state in an order that
// is the store's own and does not change. A key that changes its state while somebody
// reads the list may be met twice, or not at all.
type KeyPage struct {
	Keys   []Key
	Next   string // the After of the page that follows; "": this was the last
	Paused *Pause // while the page was read; nil: claims went on
}

// ErrNoPage: the After of a query is not the Next of any page.
var ErrNoPage = errors.New("no page of this list begins there")

// Key is a partition key as people look at it. What does not apply is zero.
type Key struct {
	Name   string
	State  KeyState
	Open   int64     // messages with a place
	Leased int64     // of them
	Worth  []Amounts // of the open ones, by currency; one of which there is nothing is absent

	// The first of its open messages. Zero while the store has not come to it since
	// the process began, which it does when there is room for more of its backlog.
	First      uint64
	AcceptedAt time.Time
	Route      Route
	Priority   uint8

	Holder *KeyHolder // who has leases of it
	Letter *KeyLetter // the dead letter that it waits for, of several the one with the smallest seq
	Hold   *KeyHold   // an operator's
	Wait   *KeyWait   // a time
	Aside  *KeyAside  // whom it is kept from for a while
	Damage uint64     // the message whose stored bytes are damaged
}

// Amounts is the sum of the amounts of messages in one currency, without their signs:
// an exact decimal; see [AtRisk].
type Amounts struct {
	Currency string
	Sum      string
}

// KeyHolder is who has leases of a key; all are of one owner.
type KeyHolder struct {
	Owner    Owner
	Seq      uint64    // the first of them, in the order of places
	Deadline time.Time // its
}

// KeyLetter is a dead letter that a key waits for.
type KeyLetter struct {
	Seq    uint64
	Count  int // how many such letters there are
	Code   Code
	Reason string
	DeadAt time.Time
}

// KeyHold is an operator's hold.
type KeyHold struct {
	By, Reason string
	Since      time.Time
}

// KeyWait is a time that a key waits for. A time that has come counts until a claim
// has seen it.
type KeyWait struct {
	Seq    uint64 // the message that was put back
	Until  time.Time
	Retry  bool // after a failure; else a handler asked for it
	Failed int  // Retry: its failures so far
}

// KeyAside keeps a key from the owner that has put it back, and from nobody else.
type KeyAside struct {
	Owner Owner
	Until time.Time
}
