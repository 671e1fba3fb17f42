package client

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"breakwater/internal/socket"
	"breakwater/queue"
	"breakwater/queue/dispatch"
	"breakwater/storage/memstore"
)

// server is a breakwater without its process: a store in memory, the dispatcher and the
// sockets of producers and consumers. It can be stopped, cut off and started again over the same store.
type server struct {
	testing.TB
	store *memstore.Store
	path  string // of consume.sock
	lease time.Duration

	runner    *dispatch.Runner
	listeners []*socket.Listener
	stop      context.CancelFunc // of the runner
	close     context.CancelFunc // of the connections
	ended     sync.WaitGroup
}

func newServer(t testing.TB) *server {
	dir, err := os.MkdirTemp("", "bw") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &server{TB: t, store: memstore.New(memstore.Options{}), path: filepath.Join(dir, "c.sock"), lease: time.Minute}
	t.Cleanup(func() {
		s.down()
		_ = os.RemoveAll(dir)
	})
	s.up()
	return s
}

// loud is what there is of a test where there is none.
type loud struct{ testing.TB }

func (loud) Helper()           {}
func (loud) Cleanup(func())    {}
func (loud) Error(args ...any) { fmt.Println(args...) }
func (loud) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Breakwater starts a server for an example.
func Breakwater() (enqueue, consume string, stop func()) {
	s := newServer(loud{})
	return s.enqueue(), s.path, func() {
		s.down()
		_ = os.RemoveAll(filepath.Dir(s.path))
	}
}

func (s *server) enqueue() string { return filepath.Join(filepath.Dir(s.path), "e.sock") }

// intake is the core's door for producers.
type intake struct {
	*dispatch.Runner
	*memstore.Store
}

type desk struct{ *dispatch.Runner }

func (d desk) Attach(ctx context.Context, a queue.Attachment) (socket.Session, error) {
	s, err := d.Runner.Attach(ctx, a)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// up starts the server, as a process that has just started would.
func (s *server) up() {
	s.Helper()
	policy := queue.Policy{MaxAttempts: 10, MaxDeliveries: 20, RetryInitial: time.Millisecond, RetryMax: time.Second}
	if _, err := s.store.Start(context.Background(), queue.StartRequest{Now: time.Now(), Policy: policy}); err != nil {
		s.Fatal(err)
	}
	var err error
	s.runner, err = dispatch.New(dispatch.Options{
		Store: s.store, Workers: 1, Room: 1,
		Settings: dispatch.Settings{Prefetch: 1, Lease: s.lease, Policy: policy, DrainTimeout: time.Second},
	})
	if err != nil {
		s.Fatal(err)
	}
	consumers, err := socket.NewConsumeServer(desk{s.runner}, socket.ConsumeOptions{Lease: s.lease})
	if err != nil {
		s.Fatal(err)
	}
	producers, err := socket.NewEnqueueServer(intake{s.runner, s.store}, socket.EnqueueOptions{})
	if err != nil {
		s.Fatal(err)
	}
	var run, serve context.Context
	run, s.stop = context.WithCancel(context.Background())
	serve, s.close = context.WithCancel(context.Background())
	runner := s.runner
	s.ended.Go(func() {
		if _, err := runner.Run(run, context.Background()); err != nil {
			s.Error(err)
		}
	})
	s.listeners = nil
	s.serve(s.path, func(l *socket.Listener) error { return consumers.Serve(serve, l) })
	s.serve(s.enqueue(), func(l *socket.Listener) error { return producers.Serve(serve, l) })
}

// serve listens at path.
func (s *server) serve(path string, serve func(*socket.Listener) error) {
	l, err := socket.Listen(socket.ListenOptions{Path: path})
	if err != nil {
		s.Fatal(err)
	}
	s.listeners = append(s.listeners, l)
	s.ended.Go(func() {
		if err := serve(l); err != nil {
			s.Error(err)
		}
	})
}

// down stops the server in good order. It may be called more than once.
func (s *server) down() {
	s.stop()
	s.close()
	for _, l := range s.listeners {
		_ = l.Close() // it may be closed already
	}
	s.ended.Wait()
}

// drain stops the server as SIGTERM does: what is on its way is answered before the
// connections end.
func (s *server) drain() {
	s.runner.Drain()
	s.close()
	s.stop()
	s.ended.Wait()
	s.down()
}

// cut ends every connection, as a crash does; the server goes on.
func (s *server) cut() {
	s.down()
	s.up()
}

// put stores exceptions of so many keys, n of each.
func (s *server) put(keys, n int) {
	s.Helper()
	var lines []queue.Submission
	for i := range keys * n {
		text := fmt.Appendf(nil, `{"idempotency_key":"k%d","trace_id":"t","partition_key":"p%d","ledger_entity":"e","match_decision":"PARTIAL","variance_amount":"1.00"}`, i, i%keys)
		m, err := queue.ParseLine(text)
		if err != nil {
			s.Fatal(err)
		}
		lines = append(lines, queue.Submission{Message: m, LineBytes: int64(len(text)), LineHash: queue.LineHash(text)})
	}
	if _, err := s.store.Admit(context.Background(), queue.AdmitRequest{Now: time.Now(), Lines: lines}); err != nil {
		s.Fatal(err)
	}
	s.runner.Wake()
}

func (s *server) status() queue.StoreStatus {
	s.Helper()
	st, err := s.store.Status(context.Background(), time.Now())
	if err != nil {
		s.Fatal(err)
	}
	return st
}

// records returns the records of one event.
func (s *server) records(e queue.Event) (list []queue.Record) {
	s.Helper()
	err := s.store.Trail(context.Background(), queue.TrailQuery{Event: e}, func(r queue.Record) bool {
		list = append(list, r)
		return true
	})
	if err != nil {
		s.Fatal(err)
	}
	return list
}

func uid() uint32 { return uint32(os.Getuid()) }
