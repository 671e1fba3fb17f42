// Package partition says where an exception is worked on: partition key → slot →
// owner. It is arithmetic only: nothing here remembers, locks, waits or imports
// anything of ours, so it can be read, tested and recomputed on its own.
//
// # Two steps, because keys are many and owners come and go
//
// A partition key (an account, a settlement entity) hashes to one of [Slots]
// slots, once and for ever:
//
//	slot = XXH64(key) mod 1024
//
// A slot is given to the owner that draws the highest weight for it:
//
//	weight(slot, owner) = XXH64(owner's name ‖ slot as two big-endian bytes)
//
// The second step is rendezvous hashing, also called highest random weight
// (D. G. Thaler, C. V. Ravishankar, "Using name-based mappings to increase hit
// rates", IEEE/ACM Transactions on Networking 6(1), 1998). Its property is the
// reason for the choice: every owner draws for every slot without regard to the
// others, so an owner that leaves loses only the slots it had won, and one that
// comes takes only the slots it wins. Nobody else's work moves. There is no ring
// and no table of virtual nodes to keep, and the order in which owners are
// listed cannot matter.
//
// Slots stand between keys and owners so that "what is mine" is a set of 1,024
// bits ([SlotSet], 128 bytes) and not a hash per message and owner: a store asks
// "is this key's slot in the claimer's set" with one shift and one mask.
//
// # What it does not promise
//
// An owner is a preference, not a permission. That one key is held by one owner
// at a time is the store's promise, kept in its claim, whatever this package
// answers while owners come and go.
//
// Shares are random, not equal: with n owners the fair share is 1024/n slots and
// the spread is that of throwing 1,024 balls into n bins (standard deviation
// about √(1024/n)). A hot key stays with one owner whatever the hash: order per
// key is the point of having keys.
//
// # The hash is part of the contract with running processes
//
// A changed hash moves every key at once. The tests therefore hold golden
// values; they are a tripwire, not a measurement.
package partition
