package queue

import (
	"context"
	"encoding/json"
	"time"
)

// Store is the durable half of breakwater, in the domain's verbs. It is the only
// place where the promises can be broken, hence the place where they are kept:
//
//   - a call that returned without error is durable (P1) and was one transaction
//     together with the records of the trail that it caused (P3, P10);
//   - a key has one message per idempotency key (P2), leases of one owner (P4),
//     handed out in the order of their places, never past an open one (P5);
//   - what was settled is never handed out again (P3).
//
// Every call is a batch, because every backend pays per round trip. Each has its
// own result per element; an error means that nothing at all was applied. Time is
// an argument: a store reads no clock, and rolls no dice.
//
// A context bounds the wait for a turn. Once a call has its turn it is carried
// through, whatever becomes of the context.
//
// All methods may be called from several goroutines. No slice or string that a
// store returns is shared with it, and it keeps nothing that it was given.
type Store interface {
	Reader

	// Start is the first call on a store opened for writing. It gives back what
	// the last process held: the leases of its workers at once (only the first of
	// each worker was running and counts as a delivery), while consumers keep
	// theirs, each for its full length again. It stores the configuration in force
	// and writes CONFIG_CHANGED (if it differs), RESTORED (if so) and STARTED.
	Start(ctx context.Context, r StartRequest) (StartResult, error)

	// Admit stores new messages and quarantined lines, answers duplicates, and
	// keeps conflicts as dead letters. After the first line that a limit refuses,
	// every later line of the request that would be stored is refused too: taking
	// it would overtake. A line whose idempotency key may be in a part of the ledger
	// that is damaged is refused, STORAGE_UNAVAILABLE, and no other with it.
	Admit(ctx context.Context, r AdmitRequest) (AdmitResult, error)

	// Claim leases messages to owners: at most Max each, at most PerKey of a key,
	// only on the owner's slots and routes, only from keys that no other owner
	// holds and that do not wait. Scheduled messages that are due by r.Now get
	// their place first (DUE), in bounded steps.
	Claim(ctx context.Context, r ClaimRequest) (ClaimResult, error)

	// Settle applies answers. When a message is put back or held, or becomes a
	// dead letter that holds its key, the later leases of its key are put back
	// with it, uncounted: order before progress.
	Settle(ctx context.Context, r SettleRequest) ([]SettleResult, error)

	// Extend renews leases.
	Extend(ctx context.Context, r ExtendRequest) ([]ExtendResult, error)

	// TakeOver returns the valid leases of a consumer that attached again: the same
	// tokens and deadlines, in the order in which they were given. It changes
	// nothing and leaves no record: whoever attaches a consumer notes ATTACHED.
	TakeOver(ctx context.Context, r TakeOverRequest) (TakeOverResult, error)

	// Reclaim takes back expired leases: of a consumer each counts as a delivery,
	// of a worker only the first, which is the one that was running.
	Reclaim(ctx context.Context, r ReclaimRequest) ([]Reclaimed, error)

	// Revoke takes the leases of messages back from consumers before they expire,
	// counted as if they had: the message may be the next owner's at once, and its
	// former one's again from the deadline on that it had. NOT_FOUND: nobody holds
	// it. LEASE_EXPIRED: somebody does, under another lease than the one that was named;
	// nothing is taken from them. USAGE: a worker does; its handler cannot be taken back,
	// and another must not start beside it (P4).
	Revoke(ctx context.Context, a Action, p Policy, leases []LeaseRef) ([]Revoked, error)

	// Pause stops all claims until Resume; it is durable and says who and why.
	// Pausing what is paused, or resuming what is not, changes nothing.
	Pause(ctx context.Context, a Action) error
	Resume(ctx context.Context, a Action) error

	// Replay puts dead letters back at their own place, counters at zero but for what
	// ended without an answer (its effect may exist all the same), or, a
	// quarantined line whose gates now pass, admits it under its own seq. It takes
	// them in the order of their places, whatever the order of the list, and stops at
	// the first of a key that it must refuse: the later ones of that key would overtake
	// it. Discard ends them. Each seq has its own result.
	Replay(ctx context.Context, a Action, seqs []uint64) ([]ActionResult, error)
	Discard(ctx context.Context, a Action, seqs []uint64) ([]ActionResult, error)

	// Edit gives dead letters new content, each judged by the gates first. The line
	// as it was sent is kept beside it. From then on whatever was or is the content
	// of such a message is answered as a duplicate of it. Each edit has its own
	// result; one that is refused changes nothing.
	Edit(ctx context.Context, a Action, edits []Edit) ([]EditResult, error)

	// HoldKeys makes keys wait until ReleaseKeys undoes it (and only it). Operators hold
	// at most MaxHeldKeys; one more is refused, QUEUE_SATURATED.
	//
	// With Action.Waits, ReleaseKeys also ends the time that a key waits for, a backoff
	// or a hold that was asked for until then: its head is claimable unless something
	// else keeps it. A dead letter and damaged bytes always do. NOT_FOUND: there is
	// nothing of the key that the call undoes.
	HoldKeys(ctx context.Context, a Action, keys []string) ([]ActionResult, error)
	ReleaseKeys(ctx context.Context, a Action, keys []string) ([]ActionResult, error)

	// SetConfig stores the effective configuration that is in force from now on, as
	// Start does, and records the change (CONFIG_CHANGED) with who ordered it. The
	// caller says what changed: a secret's change does not show in config.
	SetConfig(ctx context.Context, a Action, config, before, after json.RawMessage) error

	// Archived records that an archive was made and checked (ARCHIVED), and in the
	// same transaction marks the trail up to its head as archived, unless an earlier
	// archive reaches further. ErrNotFound, with nothing changed, for a head that is
	// not in this store's chain, or whose last record is another: such a mark would
	// let go of records that no archive holds.
	Archived(ctx context.Context, a Action, i ArchiveInfo) error

	// Expire forgets what has been kept for long enough, in one bounded step; see
	// [ExpireRequest]. A key that was settled longer ago than r.Ledger is accepted as
	// new when it comes again; open and dead ones are always remembered. It leaves one
	// TRIMMED if it forgot anything.
	Expire(ctx context.Context, r ExpireRequest) (ExpireResult, error)

	// Trim removes records from the beginning of the trail that have been kept for long
	// enough, whole blocks and whole epochs of Expire's, in one bounded step. It leaves
	// one TRIMMED, and behind it copies of those that tell of what is not over, so that
	// the rest of the trail can be verified on its own. The last block always stays.
	Trim(ctx context.Context, r TrimRequest) (TrimResult, error)

	// Note writes records of the system (ATTACHED, DRAINED, …) to the trail.
	Note(ctx context.Context, now time.Time, records []Record) error

	// Probe makes one small real commit: the proof of life for readiness and the
	// watchdog. It returns what a write would have met.
	Probe(ctx context.Context) error

	// Close ends the store after what is under way. A store that was closed opens
	// faster than one whose process died.
	Close() error
}

// Reader is what can be asked of a store, and of a copy that nobody writes to.
// Lists are paged; each page is a short read of its own.
type Reader interface {
	Status(ctx context.Context, now time.Time) (StoreStatus, error)

	// Exception returns one message, whatever its state; ErrTrimmed for one that is over
	// and of which the trail tells nothing any more, ErrNotFound for a seq
	// that was never given. The line of a settled message is not kept.
	Exception(ctx context.Context, seq uint64) (Exception, error)

	// Find returns the seq of the message with this idempotency key.
	Find(ctx context.Context, idempotencyKey string) (uint64, error)

	// Exceptions lists open messages by seq, after the given seq, at most limit.
	Exceptions(ctx context.Context, after uint64, limit int) ([]Exception, error)

	// DeadLetters lists dead letters in the order of their places, as that is the order
	// in which they are put back. A page ends after a bounded step, so it may hold few
	// letters, or none, and not be the last.
	DeadLetters(ctx context.Context, q LetterQuery) (LetterPage, error)

	// Keys lists partition keys, those that a person has to look at first. A page ends
	// after a bounded step, so it may hold few keys, or none, and not be the last.
	// ErrNoPage: q.After is not the Next of any page.
	Keys(ctx context.Context, q KeyQuery) (KeyPage, error)

	// Why returns what keeps a message or a partition key from running, as far as the
	// store knows; [Standing.Causes] says it with what the process knows besides.
	// ErrNotFound for a seq that was never given, and for a key of which nothing is in
	// the order, held or among the scheduled messages that fall due first.
	Why(ctx context.Context, q WhyQuery) (Standing, error)

	// Leases lists what is leased, by seq, after the given seq, at most limit. In a
	// copy the leases of workers are those of a process that has ended.
	Leases(ctx context.Context, after uint64, limit int) ([]Lease, error)

	// Trail calls fn for records in order until it returns false.
	Trail(ctx context.Context, q TrailQuery, fn func(Record) bool) error

	// Head returns the chain's present head.
	Head(ctx context.Context) (Head, error)

	// Verify checks everything that can be checked from the stored data alone and
	// reports what it found; an error means that it could not look.
	Verify(ctx context.Context, o VerifyOptions) (Verification, error)
}

// StartRequest says under what circumstances a process begins.
type StartRequest struct {
	Now      time.Time
	Policy   Policy
	Version  string          // of the program
	Config   json.RawMessage // the effective configuration
	Diff     func(before, after []byte) (b, a json.RawMessage)
	Restored bool   // an older file or an archive is taken into service: void all leases, start paused
	Why      string // Restored: what the file was known by to be another than the last one
	By       string // Restored: who started the process
}

// StartResult says what was found.
type StartResult struct {
	Clean     bool // the last process closed the store
	GaveBack  int  // leases of its workers
	Kept      int  // leases of consumers
	DeadAgain int  // messages whose deliveries are exhausted by this crash
}

// Action is who does something as an operator, when and why.
type Action struct {
	Now    time.Time
	By     string
	Reason string
	Peer   *Peer
	Forget bool // Discard: free the idempotency key for a corrected resend
	DryRun bool // Replay, Discard, Edit: change nothing, and say what would be done
	Waits  bool // ReleaseKeys: end the times that the keys wait for, too
}

// ActionResult answers one element of an operator's list; Code is empty when it
// was done.
type ActionResult struct {
	Seq   uint64
	Key   string
	Code  Code
	Error string

	Place  Place  // Replay: where the message goes, or would go; zero: it is scheduled
	Behind uint64 // Replay: refused because this letter of its key comes first and was
	Waits  string // Replay, DryRun: what it would wait for, in words; "" for nothing

	// Of ReleaseKeys, also where it was NOT_FOUND.
	Wait   *KeyWait // the time that the key waits for, or, with Action.Waits, has waited for; nil: none
	Letter uint64   // the dead letter that it goes on waiting for, of several the one with the smallest seq
}

// StoreStatus is counted while things happen, never by walking: it costs the
// same with a million open messages as with none.
type StoreStatus struct {
	Ready, Scheduled, Leased, Held int64
	Done, Dead, Discarded          int64
	Quarantined                    int64 // of the dead: lines that a gate refused
	OpenKeys, HeldKeys             int64 // with open messages; of them, those that wait for anything
	BlockedKeys                    int64 // that wait for a dead letter, or for damaged bytes; with open messages or without
	OperatorHolds                  int64 // that an operator holds; with open messages or without
	LedgerKeys                     int64 // remembered: not those that have expired
	LastSeq                        uint64
	Head                           Head
	Records                        uint64 // number of the trail's last one
	Opening                        Opening
	ArchivedN, ArchivedBlock       uint64 // up to this record and block an archive holds the trail; 0: nothing
	ArchivedAt                     time.Time
	Origin                         string // which store this is; see Origin
	Damaged                        int64  // messages that could not be read back so far; each holds its key
	DamagedSegments                int64  // of the ledger, with a block that could not be read so far: keys that may be there are in doubt
	FileBytes, FreeBytes           int64  // the store's file, and the free share inside it
	DiskFree                       int64  // free on its disk; -1: not known
	Paused                         *Pause
	Oldest                         []OldestReady // per route: the oldest claimable message

	AtRisk       []AtRisk       // by currency; one of which nothing is at risk is absent
	DeadUnvalued int64          // dead letters without an amount that can be read: lines that a gate refused
	DeadByCode   map[Code]int64 // dead letters by what made them one; nil: there are none
	OpenAges     Ages           // of open messages, scheduled ones included
	DeadAges     Ages           // of dead letters
}

// Backlog is what max_backlog bounds.
func (s StoreStatus) Backlog() int64 { return s.Ready + s.Scheduled + s.Leased + s.Held }

// Pause says who stopped the claims, since when and why.
type Pause struct {
	By     string
	Since  time.Time
	Reason string
}

// OldestReady is the oldest claimable message of a route.
type OldestReady struct {
	Route      Route
	AcceptedAt time.Time
	Message    Summary
}

// Exception is a message as people look at it. The members and the line are those it
// has now; of one that was edited, Sent is the line as it was sent.
type Exception struct {
	Stored
	State          State
	Place          Place // zero: it never entered the order
	Route          Route
	Priority       uint8
	NotBefore      time.Time
	AcceptedAt     time.Time
	LineBytes      int64 // of the line as it was sent
	LineHash       Hash  // of the same
	Sent           []byte
	EditedHash     Hash      // of Line, if that is not the line that was sent
	Deaths         int       // how often it has become a dead letter
	Trimmed        bool      // derived from its records, of which retention has removed the first
	Deliveries     int       // since it was accepted, or replayed
	FailedAttempts int       // the same
	Unanswered     int       // deliveries in its whole life that ended without an answer: their effect may exist
	Owner          string    // Leased: who holds it
	Deadline       time.Time // Leased
	DueAt          time.Time // Held by backoff or until a time; Scheduled
	HeldBy         string    // Held: why its key waits, in words; of any state that its bytes are damaged: then Line is not known
	Outcome        string    // Done
	SettledAt      time.Time // Done, Discarded
	Code           Code      // Dead
	Reason         string    // Dead
	Field          string    // Dead at the door
	Of             uint64    // Dead by conflict
	DeadAt         time.Time // Dead
}

// VerifyOptions says what to check besides the trail and the stored lines, and
// bounds a verification.
type VerifyOptions struct {
	// Witnesses are heads that somebody was shown: the chain must have them. At most
	// MaxWitnesses.
	Witnesses []Witness

	// Buckets compares what is stored with what the trail says; it needs a copy
	// that nobody writes to.
	Buckets bool

	// MaxOpen bounds the messages followed at once, 100 to 250 bytes each; 0:
	// no bound. A trail in which more were open is checked as a chain only from there
	// on; see Verification.Untraced.
	MaxOpen  int
	Progress func(done, total int64)
}

// Verification is what was checked and found. All but Origin and the verdicts is
// about the trail as far as its chain is proven. A verdict that contradicts is no
// finding: the trail may be sound, and another one.
type Verification struct {
	Origin          string // which store it is
	Blocks, Records uint64
	Head            Head
	First, Last     Stamp // of the first and the last record
	Events          map[Event]uint64
	Balance         Balance
	Untraced        uint64    // the record from which on only the chain was checked (MaxOpen); 0: all were
	Verdicts        []Verdict // of VerifyOptions.Witnesses, in their order
	Findings        []Finding // bounded by MaxFindings
	More            bool      // there were more findings than are listed
}

// Stamp is a record's number and time.
type Stamp struct {
	N  uint64
	TS time.Time
}

// Balance is what came in and what became of it, counted from the records alone. In
// a trail that is whole both sums are even: see Even.
type Balance struct {
	// Accepted = Decided + Dead + Discarded + Open.
	Accepted, Decided, Dead, Discarded, Open uint64

	// Lines that the door kept as dead letters:
	// Quarantined = QuarantinedDead + QuarantinedDiscarded + QuarantinedAccepted.
	// The last ones were replayed, passed, and are counted as accepted too.
	Quarantined, QuarantinedDead, QuarantinedDiscarded, QuarantinedAccepted uint64

	Duplicates uint64 // lines that were answered "duplicate"
	Deliveries uint64
}

// Even reports whether everything that came in is accounted for.
func (b *Balance) Even() bool {
	return b.Accepted == b.Decided+b.Dead+b.Discarded+b.Open &&
		b.Quarantined == b.QuarantinedDead+b.QuarantinedDiscarded+b.QuarantinedAccepted
}

// MaxFindings bounds the list of a verification.
const MaxFindings = 100

// Finding is one thing that is wrong, and where.
type Finding struct {
	What  string
	Block uint64
	N     uint64
	Seq   uint64
}

// Commit is told to a store's observer after a transaction that left records.
// Records is NDJSON and only valid during the call, which must not block: it is
// made by the one goroutine that commits.
type Commit struct {
	Head    Head
	FirstN  uint64
	Count   int
	Records []byte
}
