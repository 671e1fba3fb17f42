package boltstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"breakwater/queue"
)

// flight is what is known of a message that was handed out at least once and is
// not settled: its counters, its lease if it has one, and the wait that it put on
// its key. There are as many as there are leases and waiting heads.
type flight struct {
	seq        uint64
	ref        messageRef
	key        *key
	deliveries int
	failed     int
	unanswered int // of its whole life, counted or not: a release keeps it, and so does a replay (past)

	// The lease; owner.Kind is 0 when there is none. The last two are known only while
	// there is one.
	owner      queue.Owner
	fence      uint64
	deadline   moment
	length     time.Duration
	msg        queue.Stored // without the line
	acceptedAt time.Time

	// The wait as it is stored; the living one is key.wait.
	waitUntil time.Time // zero: none
	waitWall  bool
}

// leased reports whether somebody holds the message.
func (f *flight) leased() bool { return f.owner.Kind != 0 }

// holding is the flight as the trail's records name it.
func (f *flight) holding() queue.Holding {
	return queue.Holding{
		Owner: f.owner, Route: queue.Routes[f.ref.route],
		Deliveries: f.deliveries, FailedAttempts: f.failed, Unanswered: f.unanswered,
	}
}

// token is the right to settle the lease.
func (f *flight) token() queue.Token { return queue.Token{Seq: f.seq, Fence: f.fence} }

// clock is what the file does not know of a flight: the monotonic readings of its
// times, and how far a worker's lease was renewed.
type clock struct {
	seq, fence          uint64
	deadline, waitUntil moment
	waitWall            bool
}

func (f *flight) clock() clock {
	return clock{seq: f.seq, fence: f.fence, deadline: f.deadline, waitUntil: f.waitUntil, waitWall: f.waitWall}
}

// blank reports whether there is nothing worth storing.
func (f *flight) blank() bool {
	return !f.leased() && f.deliveries == 0 && f.failed == 0 && f.unanswered == 0 && f.waitUntil.IsZero()
}

// The stored form of a flight, under its seq:
//
//	offset 0  version
//	       1  CRC-32C of the seq (64 bits) and of all that follows
//	       5  deliveries, failed attempts, unanswered deliveries: 32 bits each
//	      17  owner kind (0: no lease), 1 byte
//	      18  owner's uid, 32 bits
//	      22  fence, 64 bits
//	      30  deadline, microseconds since 1970
//	      38  length of the lease, nanoseconds
//	      46  wait kind (0 none, 1 elapsed, 2 wall), 1 byte
//	      47  until when it waits, microseconds since 1970
//	      55  the owner's name
const (
	flightVersion = 1
	flightSize    = 55
	waitNone      = 0
	waitElapsed   = 1
	waitWall      = 2
)

// appendFlight encodes a flight.
func appendFlight(dst []byte, f *flight) []byte {
	start := len(dst)
	dst = append(dst, flightVersion, 0, 0, 0, 0)
	for _, n := range [...]int{f.deliveries, f.failed, f.unanswered} {
		dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	}
	dst = append(dst, byte(f.owner.Kind))
	dst = binary.BigEndian.AppendUint32(dst, f.owner.UID)
	dst = binary.BigEndian.AppendUint64(dst, f.fence)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.deadline.UnixMicro()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.length))
	kind, until := byte(waitNone), int64(0)
	if !f.waitUntil.IsZero() {
		kind, until = waitElapsed, f.waitUntil.UnixMicro()
		if f.waitWall {
			kind = waitWall
		}
	}
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint64(dst, uint64(until))
	dst = append(dst, f.owner.Name...)
	binary.BigEndian.PutUint32(dst[start+1:], seqSum(f.seq, dst[start+5:]))
	return dst
}

// parseFlight decodes what appendFlight wrote. Ref, key and msg are the caller's
// to fill in.
func parseFlight(seq uint64, b []byte) (f flight, err error) {
	if len(b) < flightSize || b[0] != flightVersion || binary.BigEndian.Uint32(b[1:]) != seqSum(seq, b[5:]) {
		return f, fmt.Errorf("%w: the lease record of seq %d does not match its checksum", queue.ErrDamaged, seq)
	}
	f = flight{
		seq:        seq,
		deliveries: int(binary.BigEndian.Uint32(b[5:])),
		failed:     int(binary.BigEndian.Uint32(b[9:])),
		unanswered: int(binary.BigEndian.Uint32(b[13:])),
		owner: queue.Owner{
			Kind: queue.OwnerKind(b[17]), UID: binary.BigEndian.Uint32(b[18:]), Name: string(b[flightSize:]),
		},
		fence:    binary.BigEndian.Uint64(b[22:]),
		deadline: micros(binary.BigEndian.Uint64(b[30:])),
		length:   time.Duration(binary.BigEndian.Uint64(b[38:])),
		waitWall: b[46] == waitWall,
	}
	if b[46] != waitNone {
		f.waitUntil = micros(binary.BigEndian.Uint64(b[47:]))
	}
	return f, nil
}
