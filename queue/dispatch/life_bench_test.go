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
	for _, store := range []string{"memstore", "boltstore"} {
		for _, room := range []int{64, 4096} {
			for _, kind := range []string{"pure", "effects"} {
				b.Run(fmt.Sprintf("%s/room=%d/%s", store, room, kind), func(b *testing.B) {
					handlers := map[queue.Route]any{queue.AutoResolve: bareEffect{}}
					if kind == "pure" {
						handlers = map[queue.Route]any{queue.AutoResolve: barePure{}}
					}
					life(b, openStore(b, store), room, handlers, nil)
				})
			}
		}
	}
}

// BenchmarkLife_consumers compares consumers that answer all they are told of at once
// with the built-in log handler, in one run. Its metric "of-log" is the share of the
// rate of log, which comes first.
func BenchmarkLife_consumers(b *testing.B) {
	const room = 64 // the default of queue_maxsize
	for _, store := range []string{"memstore", "boltstore"} {
		var log float64
		b.Run(store+"/log", func(b *testing.B) {
			log = life(b, openStore(b, store), room, map[queue.Route]any{queue.AutoResolve: barePure{}}, nil)
		})
		for _, consumers := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/consumers=%d/prefetch=256", store, consumers), func(b *testing.B) {
				rate := life(b, openStore(b, store), room, nil, func(r *Runner) {
					for c := range consumers {
						diligent(b, r, attachment(fmt.Sprintf("c%d", c), 256, queue.AutoResolve))
					}
				})
				b.ReportMetric(rate/log, "of-log")
			})
		}
	}
}

// diligent is a consumer that acks all it is told of, until the test ends.
func diligent(b *testing.B, r *Runner, a queue.Attachment) {
	s, err := r.Attach(b.Context(), a)
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		for {
			n, err := s.Next(b.Context())
			if err != nil {
				return
			}
			answers := make([]queue.Settlement, len(n.Deliveries))
			for i := range n.Deliveries {
				answers[i] = queue.Settlement{Token: n.Deliveries[i].Token, Verb: queue.Ack, Outcome: "DONE", At: time.Now()}
			}
			if _, err := s.Answer(b.Context(), answers); err != nil {
				return
			}
		}
	}()
}

// openStore opens an empty store, closed when the test ends.
func openStore(b *testing.B, kind string) queue.Store {
	if kind == "memstore" {
		return memstore.New(memstore.Options{})
	}
	s, err := boltstore.Open(boltstore.Options{Path: filepath.Join(b.TempDir(), "life.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// life returns how many messages a second went their whole way. begun is told when
// the Runner runs.
func life(b *testing.B, s queue.Store, room int, handlers map[queue.Route]any, begun func(*Runner)) float64 {
	if _, err := s.Start(b.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		b.Fatal(err)
	}
	var settled atomic.Int64
	done := make(chan struct{})
	o := usual()
	o.Store, o.Workers, o.Room, o.Settings.Prefetch = s, 8, room, room/2
	o.Handlers = handlers
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
	if begun != nil {
		begun(r)
	}
	b.ReportAllocs()
	b.ResetTimer()
	produce(b, r, all)
	<-done
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "msgs/s")
	b.StopTimer()
	cancel()
	<-ended
	return rate
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
