package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Key identifies an idempotency key: the first 16 bytes of a keyed SHA-256.
// Keys are compared as bytes, and the package relies on them being spread
// evenly for speed (never for correctness).
type Key [16]byte

// KeyOf hashes an idempotency key with the file's secret, so that nobody who
// chooses keys can craft two that collide, or many that crowd one place.
// It may be called from any goroutine.
func KeyOf(secret [32]byte, idempotencyKey string) Key {
	// 256 is the contract's longest key: up to there nothing escapes to the heap.
	var buf [32 + 256]byte
	b := append(buf[:0], secret[:]...)
	b = append(b, idempotencyKey...)
	sum := sha256.Sum256(b)
	return Key(sum[:16])
}

// high and low are a key's two halves; comparing (high, low) is comparing bytes.
func (k Key) high() uint64 { return binary.BigEndian.Uint64(k[:8]) }
func (k Key) low() uint64  { return binary.BigEndian.Uint64(k[8:]) }

// State is where the message of a key stands. The numbers are stored.
type State uint8

// The states. Open and Dead entries are never dropped by retention: their
// messages can still be worked on. Forgotten frees the key for a new message.
const (
	StateOpen State = iota + 1
	StateDone
	StateDead
	StateDiscarded
	StateForgotten
)

// String returns the state's name in lower case, as receipts show it.
func (s State) String() string {
	names := [...]string{"invalid", "open", "done", "dead", "discarded", "forgotten"}
	if int(s) >= len(names) {
		return names[0]
	}
	return names[s]
}

// Digests holds 16 bits of each member that makes up "the same content", so
// that a conflict can name the member that differs without the first message.
// Two different values share a digest once in 65,536; only the name suffers,
// since equality is decided by the fingerprint.
type Digests [5]uint16

// The members, in the order they are compared and stored.
const (
	LedgerEntity = iota
	VarianceAmount
	MatchDecision
	Currency
	PartitionKey
)

// Digest returns the 16 bits kept of one member. It may be called from any
// goroutine.
func Digest(member string) uint16 { return uint16(xxhash.Sum64String(member)) }

// Diff returns the name of the first member that differs, or "".
func (d Digests) Diff(other Digests) string {
	names := [...]string{"ledger_entity", "variance_amount", "match_decision", "currency", "partition_key"}
	for i, name := range names {
		if d[i] != other[i] {
			return name
		}
	}
	return ""
}

// MaxOutcome is the longest outcome in bytes, a limit of the consumers' protocol.
const MaxOutcome = 64

// Entry is what is remembered of one idempotency key.
type Entry struct {
	Key         Key
	Fingerprint [16]byte // of the content; equal means "the same message again"
	Members     Digests
	Seq         uint64 // of the message that owns the key
	State       State
	New         bool   // first entry of a key that is absent or Forgotten: counts it; Put only, Get never returns it
	Outcome     string // at most MaxOutcome bytes, once done
	SettledAt   int64  // unix microseconds, 0 while open
	Epoch       uint32 // of the store's life, in which it was settled; 0 while open
}

// check refuses what could not be read back as it was written.
func (e *Entry) check() error {
	if e.State < StateOpen || e.State > StateForgotten {
		return fmt.Errorf("entry of seq %d: state %d is not one", e.Seq, e.State)
	}
	if len(e.Outcome) > MaxOutcome {
		return fmt.Errorf("entry of seq %d: outcome of %d bytes, limit %d", e.Seq, len(e.Outcome), MaxOutcome)
	}
	return nil
}

// record is an entry as stored, in the log, in heads and in blocks alike:
//
//	key 16 | fingerprint 16 | members 5×2 | seq 8 | state 1 [ settledAt 8 | epoch 4 | n 1 | outcome n ]
//
// Numbers are big-endian. The state byte carries two flags: tailed says that
// the bracketed part follows, fresh that Entry.New was set (read by log replay).
type record []byte

const (
	recordFixed = 51 // bytes up to and including the state
	recordTail  = 13 // bytes of the bracketed part, less the outcome

	stateByte  = recordFixed - 1
	stateMask  = 0x0f
	flagTailed = 0x40
	flagFresh  = 0x80
)

// appendRecord encodes e, which has passed check, onto b.
func appendRecord(b []byte, e *Entry) []byte {
	b = append(b, e.Key[:]...)
	b = append(b, e.Fingerprint[:]...)
	for _, m := range e.Members {
		b = binary.BigEndian.AppendUint16(b, m)
	}
	b = binary.BigEndian.AppendUint64(b, e.Seq)
	state := byte(e.State)
	if e.New {
		state |= flagFresh
	}
	if e.SettledAt == 0 && e.Epoch == 0 && e.Outcome == "" {
		return append(b, state)
	}
	b = append(b, state|flagTailed)
	b = binary.BigEndian.AppendUint64(b, uint64(e.SettledAt))
	b = binary.BigEndian.AppendUint32(b, e.Epoch)
	b = append(b, byte(len(e.Outcome)))
	return append(b, e.Outcome...)
}

// cutRecord splits the first record off b; ok is false when b does not begin
// with a whole one.
func cutRecord(b []byte) (r record, rest []byte, ok bool) {
	if len(b) < recordFixed {
		return nil, nil, false
	}
	n := recordFixed
	if b[stateByte]&flagTailed != 0 {
		if len(b) < recordFixed+recordTail {
			return nil, nil, false
		}
		n += recordTail + int(b[recordFixed+recordTail-1])
	}
	if len(b) < n {
		return nil, nil, false
	}
	return record(b[:n:n]), b[n:], true
}

func (r record) key() Key     { return Key(r[:16]) }
func (r record) state() State { return State(r[stateByte] & stateMask) }

// counts is what the record adds to the number of live keys when it is put.
func (r record) counts() int64 {
	var n int64
	if r[stateByte]&flagFresh != 0 {
		n++
	}
	if r.state() == StateForgotten {
		n--
	}
	return n
}

// entry decodes the record. The result shares no memory with it.
func (r record) entry() Entry {
	e := Entry{
		Key:         r.key(),
		Fingerprint: [16]byte(r[16:32]),
		Seq:         binary.BigEndian.Uint64(r[42:]),
		State:       r.state(),
	}
	for i := range e.Members {
		e.Members[i] = binary.BigEndian.Uint16(r[32+2*i:])
	}
	if r[stateByte]&flagTailed != 0 {
		e.SettledAt = int64(binary.BigEndian.Uint64(r[recordFixed:]))
		e.Epoch = binary.BigEndian.Uint32(r[recordFixed+8:])
		e.Outcome = string(r[recordFixed+recordTail:])
	}
	return e
}
