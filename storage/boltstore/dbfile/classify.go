package dbfile

import (
	"errors"
	"io/fs"
	"strings"

	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Verdict says what an error of a commit means for what the commit held.
type Verdict int

// The two verdicts. There is no third: a commit whose outcome is not known for
// certain must be treated as the worst.
const (
	// FailStop: nobody knows whether it is stored. Answer no receipt, read and
	// write nothing more, end the process. The clients' retries and the ledger
	// settle what was in doubt.
	FailStop Verdict = iota
	// CleanRefusal: certainly not stored, and the database is as before. Going
	// on is safe. It is not free: without a synced list of free pages bbolt
	// walks the whole tree to roll back (0.25 s per GB), so intake should stop
	// at a limit of its own, before the disk says no.
	CleanRefusal
)

// String is the verdict in words.
func (v Verdict) String() string {
	if v == CleanRefusal {
		return "refused, nothing stored"
	}
	return "outcome unknown, stop"
}

// Classify judges a non-nil error of Commit, or of Update where the function
// inside did not fail. before and after are what [File.Txid] said before the
// transaction and says now; where after cannot be read, the verdict is FailStop
// without asking.
//
// A failed sync of the meta page makes bbolt report an error while readers
// already see the transaction; who then goes on builds on pages that the disk
// may not have. Hence everything is FailStop, except a want of room (disk, quota,
// file size, MaxBytes) that a write or the growing of the file met, with the
// transaction id where it was. A want of room met by a sync has come too late:
// the kernel has by then forgotten which pages it dropped.
func Classify(err error, before, after uint64) Verdict {
	if err == nil || before != after {
		return FailStop
	}
	if errors.Is(err, berrors.ErrMaxSizeReached) || wroteWithoutRoom(err) || grewWithoutRoom(err) {
		return CleanRefusal
	}
	return FailStop
}

// noRoom are the three ways in which the system says that there is no room.
var noRoom = [...]unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EFBIG}

// wroteWithoutRoom: bbolt passes on the error of os.File.WriteAt, a PathError
// whose Op is "write". Its errors of fdatasync are bare errnos, and so fail here.
func wroteWithoutRoom(err error) bool {
	var pe *fs.PathError
	if !errors.As(err, &pe) || pe.Op != "write" {
		return false
	}
	for _, e := range noRoom {
		if errors.Is(pe.Err, e) {
			return true
		}
	}
	return false
}

// growPrefix starts bbolt's error for a failed ftruncate. It keeps only the
// text of the cause; the test with a real failing call guards this reading of
// it. The fsync that follows the ftruncate has another prefix.
const growPrefix = "file resize error: "

func grewWithoutRoom(err error) bool {
	text := err.Error()
	if !strings.HasPrefix(text, growPrefix) {
		return false
	}
	for _, e := range noRoom {
		if strings.HasSuffix(text, ": "+e.Error()) {
			return true
		}
	}
	return false
}
