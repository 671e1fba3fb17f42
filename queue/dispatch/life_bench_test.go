package dispatch

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore"
	"breakwater/storage/memstore"
)

// BenchmarkLife is the whole life of messages through a Runner: admitted by 16
// producers in batches of 100, claimed, decided and settled. One iteration is one
// message. The channels are as long as the configuration's default, and longer.
func BenchmarkLife(b *testing.B) {
	stores := map[string]func(b *testing.B) queue.Store{
		"memstore": func(*testing.B) queue.Store { return memstore.New(memstore.Options{}) },
		"boltstore": func(b *testing.B) queue.Store {
			s, err := boltstore.Open(boltstore.Options{Path: filepath.Join(b.TempDir(), "life.db")})
			if err != nil {
				b.Fatal(err)
			}
			return s
		},
	}
	for _, store := range []string{"memstore", "boltstore"} {
		for _, room := range []int{64, 4096} {
			for _, kind := range []string{"pure", "effects"} {
				b.Run(fmt.Sprintf("%s/room=%d/%s", store, room, kind), func(b *testing.B) {
					s := stores[store](b)
					defer s.Close()
					life(b, s, room, kind == "pure")
				})
			}
		}
	}
}

func life(b *testing.B, s queue.Store, room int, pure bool) {
	if _, err := s.Start(b.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		b.Fatal(err)
	}
	var settled atomic.Int64
	done := make(chan struct{})
	o := usual()
	o.Store, o.Workers, o.Room, o.Settings.Prefetch = s, 8, room, room/2
	o.Handlers = map[queue.Route]any{queue.AutoResolve: bareEffect{}}
	if pure {
		o.Handlers = map[queue.Route]any{queue.AutoResolve: barePure{}}
	}
	o.Observer.Settled = func(results []queue.SettleResult, _ time.Duration) {
		if settled.Add(int64(len(results))) == int64(b.N) {
			close(done)
		}
	}
	r, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	stop, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := r.Run(stop, context.Background()); err != nil {
			b.Error(err)
		}
	}()
	specs := make([]string, b.N)
	for i := range specs {
		specs[i] = fmt.Sprintf("m%d@K%d=0", i, i%500)
	}
	all := submissions(b, specs...)
	b.ReportAllocs()
	b.ResetTimer()
	produce(b, r, all)
	<-done
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	b.StopTimer()
	cancel()
	<-ended
}

// produce submits all lines, a sixteenth of them by each producer.
func produce(b *testing.B, r *Runner, all []queue.Submission) {
	const producers, batch = 16, 100
	var busy sync.WaitGroup
	for p := range producers {
		mine := all[p*len(all)/producers : (p+1)*len(all)/producers]
		busy.Go(func() {
			for len(mine) > 0 {
				n := min(batch, len(mine))
				if _, err := r.Submit(b.Context(), queue.Peer{}, mine[:n]); err != nil {
					b.Error(err)
				}
				mine = mine[n:]
			}
		})
	}
	busy.Wait()
}

type barePure struct{}

func (barePure) Decide(*queue.Delivery) queue.Answer {
	return queue.Answer{Verb: queue.Ack, Outcome: "AUTO_RESOLVED"}
}

type bareEffect struct{}

func (bareEffect) Handle(context.Context, *queue.Delivery) queue.Answer {
	return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
}
