// Package dbfile keeps one bbolt file safe to open.
//
// bbolt trusts its file: a truncated one ends the process with SIGBUS, a
// damaged one panics in a goroutine of bbolt's own where nothing can recover,
// a lost meta page silently steps back one commit. Everything in this package
// stands between such a file and [bolt.Open], so that the store above gets
// either a sound database or an error that a person can act on, and never
// changes a file that it refuses.
//
// # The order of Open
//
//  1. the path: a regular file or nothing, never a symbolic link
//  2. the lock, before anything is judged or created
//  3. a file left half-made by a killed creation is removed
//  4. an absent file is created whole: temporary name, fsync, rename, fsync
//  5. both meta pages are read and judged by us, against the file's real size
//  6. after an unclean stop the page cache is dropped and the file read anew
//  7. after an unclean stop every reachable page is checked ([Verify])
//  8. bbolt opens the very descriptor that was judged, not the path again
//
// # Clean and unclean
//
// A running store does not write its list of free pages (commits would pay for
// the past, and one open reader would let the file explode); bbolt then has to
// walk the tree at the next open. [File.CloseClean] writes the list with the
// last commit, and notes in the lock file which transaction that was. A stop is
// believed to have been clean only if the newest meta page has a list and the
// note names exactly this transaction, inode, size and time of change. A
// restored copy, an edited file or a failed last sync is therefore always
// checked in full.
//
// # Files beside the store
//
//	<store>.lock      flock'ed while a process has the store; pid and clean note; never removed
//	<store>.head      the witness, see [Witness]
//	.<store>.creating a creation in progress; removed by the next opener
//
// # What is not defended
//
// Bits that rot while a store that was stopped cleanly is at rest, or while it
// is open, are found when the record is read (each has its own checksum) or by
// verify. A file truncated while it is open ends the process with SIGBUS; the
// next start refuses it.
package dbfile
