// Package archive makes archives: copies of a running store, checked, with a manifest
// beside them. An archive is one file that the same program opens anywhere, and from
// which everything can be proved that the store could prove at that moment.
//
// # How one is made
//
//  1. The destination is judged: an absolute path, in a folder that is there, under a
//     name that is free. Leftovers of an archive to this name that was killed go.
//  2. The store is copied page by page into a temporary file in that folder
//     (.NAME.….archiving, 0600), in a read transaction beside the committer. The
//     guard watches room and pace, since the store's file grows meanwhile.
//  3. A child process marks the copy as a copy, reads all of it back from the disk,
//     checks pages, records, chain and that the buckets are what the trail says, counts,
//     and computes the SHA-256. A child, because bbolt maps its file, and a damaged page
//     there ends the process with a signal; the one that takes exceptions in must not
//     die of a bad disk under a copy.
//  4. The manifest gets its name, then the copy, each synced with its folder. Until
//     then nothing is under either name. A failure leaves nothing at all: the names go
//     at once, what the copy takes of the disk in pieces (giveBack).
//  5. The store records ARCHIVED and how far its trail is archived now.
//
// # What a kill leaves
//
// kill -9 leaves temporary files, which the next archive to the same name removes; they
// are locked while they are in use, so nobody else's are touched. Between the two
// renames it leaves a manifest without an archive, which the next archive replaces.
// Between the second and the record: a good archive that the store does not know of.
package archive
