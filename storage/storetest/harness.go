// Package storetest says what a store must do, once, for every backend:
//
//   - Run states each promise of queue.Store as a named subtest, one file per
//     verb (admit.go, claim.go, settle.go, …);
//   - RunModel applies the same random calls to a store and to a model (package
//     memstore) and compares every answer, every list and every record;
//   - CheckTrail proves from a trail alone that order, single holding and the
//     single decision were kept, whatever the store says of itself;
//   - Bench measures all backends with the same work.
//
// A backend's tests give it an Open. What a backend is (Harness) never switches a
// promise off.
//
// # Notation
//
// Lines are written "a1@A": idempotency key a1, partition key A. More members
// follow as name=value: "a2@A priority=0 amount=7.00 not_before=+1h". A line that
// begins with "!" is put through the gates as it stands. Expectations name
// messages by their idempotency keys: a claim of "a1 b1" got these two, in this
// order.
package storetest

import (
	"testing"

	"breakwater/queue"
)

// Harness is a store under test, and what can be done to it from outside.
type Harness struct {
	// Store is new and empty; nothing has been called on it.
	Store queue.Store

	// Crash ends the store's process as kill -9 would, and returns the store as
	// the next process opens it. Reopen closes the store first. The old store is
	// not used again; both may be called many times. Start is the caller's.
	Crash, Reopen func() queue.Store

	// Together makes calls to the present store at one time, so that one commit answers
	// all of them if it can; nil: they are begun together, and it is left to chance.
	Together func(calls []func())

	// Close releases everything when the harness is no longer used; nil: nothing.
	Close func()
}

// Options are what a test wants of the store that is opened for it.
type Options struct {
	// Committed is to be told of each commit, by every store of the harness.
	Committed func(queue.Commit)
}

// Open makes a new, empty store for one test.
type Open func(t testing.TB, o Options) Harness

// Run states every promise of a store.
func Run(t *testing.T, open Open) {
	for _, verb := range []struct {
		name     string
		promises []promise
	}{
		{"admit", admitPromises},
		{"duplicate", duplicatePromises},
		{"limits", limitPromises},
		{"claim", claimPromises},
		{"scheduled", scheduledPromises},
		{"settle", settlePromises},
		{"token", tokenPromises},
		{"siblings", siblingPromises},
		{"extend", extendPromises},
		{"reclaim", reclaimPromises},
		{"take_over", takeOverPromises},
		{"revoke", revokePromises},
		{"leases", leasesPromises},
		{"start", startPromises},
		{"unanswered", unansweredPromises},
		{"letters", letterPromises},
		{"replay", replayPromises},
		{"edit", editPromises},
		{"operator", operatorPromises},
		{"archived", archivedPromises},
		{"expire", expirePromises},
		{"trim", trimPromises},
		{"read", readPromises},
		{"risk", riskPromises},
		{"keys", keyPromises},
		{"trail", trailPromises},
		{"lives", lifePromises},
		{"concurrent", concurrentPromises},
	} {
		t.Run(verb.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range verb.promises {
				t.Run(p.name, func(t *testing.T) {
					w := newWorld(t, open)
					p.keep(w)
					w.check()
				})
			}
		})
	}
}

// promise is one thing that a store must do: its name reads on from the verb.
type promise struct {
	name string
	keep func(w *world)
}
