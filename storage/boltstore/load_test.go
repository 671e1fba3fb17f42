package boltstore

import (
	"fmt"
	"testing"

	"breakwater/queue"
)

// TestLoad_needs_no_memory_for_each_message loads a backlog, as it came and parked, and
// counts what is allocated: a start with a million messages would be twice as long, and
// the heap as large.
func TestLoad_needs_no_memory_for_each_message(t *testing.T) {
	const messages, keys = 4000, 10
	p := newParkerWith(t, Options{Window: 64, spans: spanLimits{bytes: 2000, blocks: 5}}) // of the trail's end a load reads all
	for i := 0; i < messages; i += keys {
		var each []func(*queue.Message)
		for k := range keys {
			each = append(each, func(m *queue.Message) { m.PartitionKey = fmt.Sprint("key-", k) })
		}
		p.submit(each...)
	}
	for _, how := range []string{"as it came", "parked"} {
		var allocated float64
		p.must(nil, p.h.store.do(p.ctx, &operation{read: true, apply: func(x *txn) (err error) {
			allocated = testing.AllocsPerRun(3, func() {
				if _, failed := load(x.tx, p.h.store.secret, &p.h.store.options, nil); failed != nil {
					err = failed
				}
			})
			return err
		}}))
		if allocated > messages/4 {
			t.Errorf("%s: a load of %d messages allocates %.0f times", how, messages, allocated)
		}
		for more := true; more; { // nobody works on their route: all are parked but some
			_, more = p.claimOf(queue.RoutesOf(queue.AutoResolve), 1)
		}
	}
	parked := int64(0)
	p.must(nil, p.h.store.look(p.ctx, func(x *txn) error {
		for k := range x.t.keys.all() {
			parked += int64(k.parked)
		}
		return nil
	}))
	if parked < messages/2 {
		t.Errorf("of %d messages only %d are parked", messages, parked)
	}
}
