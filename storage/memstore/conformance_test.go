package memstore_test

import (
	"testing"

	"breakwater/queue"
	"breakwater/storage/memstore"
	"breakwater/storage/storetest"
)

var _ queue.Store = (*memstore.Store)(nil)

// open makes a model for storetest.
func open(_ testing.TB, o storetest.Options) storetest.Harness {
	s := memstore.New(memstore.Options{Committed: o.Committed})
	reopen := func() queue.Store { s = s.Reopen(); return s }
	return storetest.Harness{
		Store: s,
		Crash: reopen,
		Reopen: func() queue.Store {
			_ = s.Close() // of a store in memory cannot fail
			return reopen()
		},
	}
}

func init() { storetest.Programs(20) }

func TestStore(t *testing.T) { storetest.Run(t, open) }

func TestModel(t *testing.T) { storetest.RunModel(t, open, open) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, open) }
