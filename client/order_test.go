package client

import (
	"fmt"
	"strings"
	"testing"

	"breakwater/queue"
)

// oneKey is a file of n exceptions of one partition key.
func oneKey(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"idempotency_key":"k%d","trace_id":"t","partition_key":"p","ledger_entity":"e","match_decision":"PARTIAL","variance_amount":"1.00"}`+"\n", i)
	}
	return b.String()
}

// inOrder checks that all n are stored in the order of their file.
func (s *server) inOrder(n int) {
	s.Helper()
	accepted := s.records(queue.EventAccepted)
	if len(accepted) != n {
		s.Errorf("%d are stored of %d", len(accepted), n)
	}
	for i, r := range accepted {
		if want := fmt.Sprint("k", i); r.IdempotencyKey != want || r.Seq != uint64(i+1) {
			s.Fatalf("seq %d is %s, want %s", r.Seq, r.IdempotencyKey, want)
		}
	}
}

// TestProducer_keeps_the_order: whatever the server does in between, lines of one key are
// stored in the order of their file (P5), each once.
func TestProducer_keeps_the_order(t *testing.T) {
	t.Run("over restarts", func(t *testing.T) {
		s := newServer(t)
		const n, every = 2000, 300
		restart := make(chan bool, n/every+1)
		settled := 0
		restarted := make(chan struct{})
		go func() {
			defer close(restarted)
			for clean := range restart {
				if clean {
					s.drain()
				} else {
					s.down()
				}
				s.up()
			}
		}()
		p := Producer{Path: s.enqueue(), Receipt: func([]byte) error {
			if settled++; settled%every == 0 {
				restart <- settled/every%2 == 0
			}
			return nil
		}}
		res, err := p.Send(t.Context(), strings.NewReader(oneKey(n)))
		close(restart)
		<-restarted
		if err != nil || res.Accepted+res.Duplicate != n || res.Rejected != 0 || res.Duplicate > res.Resent {
			t.Errorf("%+v, %v", res, err)
		}
		s.inOrder(n)
	})
}
