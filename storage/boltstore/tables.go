package boltstore

import (
	"encoding/binary"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// tables is everything the store knows in memory. The committer owns it; nobody
// else may look. It is rebuilt from the file by load.
type tables struct {
	secret  [32]byte
	count   counters
	ledger  *ledger.Ledger
	service queue.Uptime
	opening queue.Opening
	keys    keyTable
	holds   map[keyHash]string // the names of the keys that operators hold
	flights map[uint64]*flight

	untrimmed   uint64             // the first epoch with records that were not trimmed is not before this one
	standIns    map[uint64]standIn // by seq: of what can't be read
	lostFlights []uint64           // messages whose lease record can't be read
	strayed     []uint64           // places of entries of bucket parked that lead to no message of their key
	ready       *shelves
	heads       [len(queue.Routes)]headHeap
	turn        uint64
	spans       spanWriter
	waits       waits
	depth       depths
	pause       *queue.Pause

	archived queue.ArchiveMark

	dead        int64
	quarantined int64                // of the dead: refused by a gate
	unvalued    int64                // of the dead: their amount cannot be read
	byCode      map[queue.Code]int64 // the dead by their code
	deadWorth   sums
	letters     map[uint64]int64 // hash of a line → seq of the open letter that holds it

	late           lateLetters // those whose place is not their seq
	swept          aliasName   // where the next edit goes on looking for aliases that lead nowhere
	scheduled      int64
	scheduledWorth sums
	nextDue        time.Time // the earliest not_before; zero: nothing is scheduled

	openAges, deadAges ageing

	// The window; see window.go.
	windowMax int
	windowed  int         // messages in all windows
	walked    queue.Place // all up to here are filed
	walkedAll bool        // and there are none after it
	starved   bool        // the last claim left something wanted

	asides     []*key     // keys that are set aside from somebody, and some that were
	candidates candidates // reused by claims
}

func newTables(secret [32]byte, o *Options) *tables {
	return &tables{
		secret: secret, windowMax: o.Window, ready: new(shelves), spans: newSpanWriter(o.spans),
		flights: map[uint64]*flight{}, standIns: map[uint64]standIn{}, holds: map[keyHash]string{}, letters: map[uint64]int64{},
		byCode: map[queue.Code]int64{}, openAges: newAgeing(), deadAges: newAgeing(),
	}
}

// letterOf is what the table of open letters knows a line by: 64 bits of its
// hash. The letter itself, with the whole hash, decides.
func letterOf(line queue.Hash) uint64 { return binary.BigEndian.Uint64(line[:8]) }

// ready returns how many messages could be claimed as far as their keys go.
func (d *depths) ready() int64 { return d.open - d.leased - d.held }

// backlog is what max_backlog bounds.
func (t *tables) backlog() int64 { return t.depth.open + t.scheduled }
