package archive

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// removePiece is what the disk is given back at a time of a file that is removed, and
	// removePause what it rests before the next. Where the file system tells the disk at
	// once what is free (mount option discard) it does so while it writes its journal, and
	// every commit of the store's waits for that. Measured on such an ext4: a whole copy
	// held up a commit for some 300 ms, a piece for 13 to 15.
	removePiece = 16 << 20
	removePause = 20 * time.Millisecond
)

// giveBack gives the disk back what an open file takes that has no name any more, a
// piece at a time, each with a journal entry of its own: left to the next commit of the
// store's, all of them would be in one. What is left after hurry, or when the file
// cannot be cut, goes in one piece as the file is closed.
//
// A file that somebody has given another name is left alone: it is his.
func giveBack(f *os.File, hurry <-chan struct{}) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Nlink > 0 {
		return
	}
	rest := time.NewTicker(removePause)
	defer rest.Stop()
	for left := st.Size; left > 0; {
		left = max(0, left-removePiece)
		if f.Truncate(left) != nil || f.Sync() != nil {
			return
		}
		select {
		case <-rest.C:
		case <-hurry:
			return
		}
	}
}
