package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage"
)

// What the exceptions are like.
const (
	partitionKeys = 1000
	lineBytes     = 350
	leaseTime     = time.Minute
)

var policy = queue.Policy{MaxAttempts: 10, MaxDeliveries: 20, RetryInitial: time.Second, RetryMax: time.Minute}

// load is a store under measurement.
type load struct {
	store  queue.Store
	limits queue.Limits
	made   atomic.Int64 // exceptions that were made up
	taken  atomic.Int64 // that the store has accepted
	done   atomic.Int64 // that were settled
	full   atomic.Bool
}

// admit measures durable intake.
func admit(ctx context.Context, path string, o Options) (Figure, error) {
	return measure(ctx, path, o, func(l *load) *atomic.Int64 { return &l.taken }, func(l *load, _ int) error { return l.send(ctx) })
}

// life measures intake, claims and settlements, by callers that do all of it in turns.
func life(ctx context.Context, path string, o Options) (Figure, error) {
	return measure(ctx, path, o, func(l *load) *atomic.Int64 { return &l.done }, func(l *load, caller int) error {
		// Keys of other callers' leases are not to be had, so that a turn may settle less
		// than it sent: without this the backlog would grow.
		if l.taken.Load()-l.done.Load() < 2*Callers*Batch {
			if err := l.send(ctx); err != nil {
				return err
			}
		}
		return l.work(ctx, caller)
	})
}

// measure has all callers take turns on a new store until the time is over, the store
// is full, or one of them fails, and returns what count then says.
func measure(ctx context.Context, path string, o Options, count func(*load) *atomic.Int64, turn func(*load, int) error) (f Figure, err error) {
	store, _, err := storage.Open(storage.Options{Path: filepath.Join(path, "breakwater.db"), Context: ctx})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.Start(ctx, queue.StartRequest{Now: time.Now(), Policy: policy}); err != nil {
		return f, err
	}
	l := &load{store: store, limits: queue.Limits{MaxStoreBytes: storeBytes, MinFreeBytes: o.MinFreeBytes}}
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	begin := time.Now()
	for caller := range Callers {
		wg.Go(func() {
			for time.Since(begin) < o.Each && ctx.Err() == nil && failed.Load() == nil && !l.full.Load() {
				if err := turn(l, caller); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	f = Figure{Count: count(l).Load(), Elapsed: time.Since(begin), Full: l.full.Load()}
	if e := failed.Load(); e != nil {
		return f, *e
	}
	return f, nil
}

// send has the store accept a batch.
func (l *load) send(ctx context.Context) error {
	res, err := l.store.Admit(ctx, queue.AdmitRequest{Now: time.Now(), Limits: l.limits, Lines: l.lines(Batch)})
	if err != nil {
		return err
	}
	for i := range res.Receipts {
		switch r := &res.Receipts[i]; {
		case r.Status == queue.Accepted:
			l.taken.Add(1)
		case r.Reason == queue.FullStore || r.Reason == queue.FullDisk:
			l.full.Store(true)
		default:
			return fmt.Errorf("the store did not accept an exception: %s %s", r.Status, r.Code)
		}
	}
	return nil
}

// work claims a batch and settles it.
func (l *load) work(ctx context.Context, caller int) error {
	now := time.Now()
	owner := queue.Owner{Kind: queue.Worker, Name: "w-" + strconv.Itoa(caller)}
	res, err := l.store.Claim(ctx, queue.ClaimRequest{Now: now, Wants: []queue.Want{{
		Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...),
		Max: Batch, PerKey: Batch, Lease: leaseTime,
	}}})
	if err != nil || len(res.Deliveries[0]) == 0 {
		return err
	}
	r := queue.SettleRequest{Now: now, Policy: policy}
	for _, d := range res.Deliveries[0] {
		r.Settlements = append(r.Settlements, queue.Settlement{Token: d.Token, Owner: owner, Verb: queue.Ack, At: now, Outcome: "DONE"})
	}
	results, err := l.store.Settle(ctx, r)
	if err != nil {
		return err
	}
	for i := range results {
		if results[i].Code != "" {
			return fmt.Errorf("the store did not settle an exception: %s", results[i].Code)
		}
	}
	l.done.Add(int64(len(results)))
	return nil
}

// lines makes up the next n exceptions. They are as if they had been parsed: it is the
// store that is measured.
func (l *load) lines(n int) []queue.Submission {
	first := l.made.Add(int64(n)) - int64(n)
	out := make([]queue.Submission, n)
	for i := range out {
		number := first + int64(i)
		line := fmt.Appendf(make([]byte, 0, lineBytes), `{"idempotency_key":"%012d","rest":"`, number)
		for len(line) < lineBytes-2 {
			line = append(line, byte('a'+len(line)%26))
		}
		line = append(line, `"}`...)
		m := queue.Message{
			IdempotencyKey: strconv.FormatInt(number, 10), TraceID: "trace-of-a-usual-length-0001",
			PartitionKey: "ACC-" + strconv.FormatInt(number*7919%partitionKeys, 10), LedgerEntity: "ENTITY-0001",
			Decision: queue.Partial, Amount: "-1042.37", Currency: "EUR",
			Priority: queue.DefaultPriority, Route: queue.RouteReview, Line: line,
		}
		binary.BigEndian.PutUint64(m.SourceHash[:], uint64(number))
		out[i] = queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: m.SourceHash}
	}
	return out
}
