package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"breakwater/client"
)

const lines = `{"idempotency_key":"k1","trace_id":"t1","partition_key":"ACME","ledger_entity":"E1","match_decision":"PARTIAL","variance_amount":"-1042.37","currency":"EUR"}
{"idempotency_key":"k2","trace_id":"t2","partition_key":"ACME","ledger_entity":"E1","match_decision":"UNMATCHED","variance_amount":"7.00","currency":"EUR"}
{"idempotency_key":"k1","trace_id":"t1","partition_key":"ACME","ledger_entity":"E1","match_decision":"PARTIAL","variance_amount":"-1042.37","currency":"EUR"}
`

// A producer sends what a matching engine found. The third line is the first again.
func ExampleProducer_Send() {
	enqueue, _, stop := breakwater()
	defer stop()

	p := client.Producer{
		Path:    enqueue,
		Receipt: func(receipt []byte) error { fmt.Print(string(receipt)); return nil },
	}
	result, err := p.Send(context.Background(), strings.NewReader(lines))
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(result.Accepted, "accepted,", result.Duplicate, "duplicate")
	// Output:
	// {"line":1,"status":"accepted","seq":1,"idempotency_key":"k1"}
	// {"line":2,"status":"accepted","seq":2,"idempotency_key":"k2"}
	// {"line":3,"status":"duplicate","seq":1,"idempotency_key":"k1","state":"ready"}
	// 2 accepted, 1 duplicate
}

// A posting job: its effects are remembered by idempotency key, so that a delivery that
// comes again finds what was done.
func ExampleConsumer_Run() {
	enqueue, consume, stop := breakwater()
	defer stop()
	p := client.Producer{Path: enqueue}
	if _, err := p.Send(context.Background(), strings.NewReader(lines)); err != nil {
		fmt.Println(err)
	}

	var posted sync.Map
	c := client.Consumer{Path: consume, Name: "post-journal", Prefetch: 8, Max: 2}
	err := c.Run(context.Background(), func(_ context.Context, d client.Delivery) client.Answer {
		if _, before := posted.LoadOrStore(d.IdempotencyKey, true); !before {
			fmt.Printf("posting %s of %s\n", d.IdempotencyKey, d.PartitionKey)
		}
		return client.Answer{Verb: client.Ack, Outcome: "POSTED", By: "post-journal"}
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// posting k1 of ACME
	// posting k2 of ACME
}

// A tool for people hands on what it is handed and answers when somebody has decided.
func ExampleSession() {
	enqueue, consume, stop := breakwater()
	defer stop()
	p := client.Producer{Path: enqueue}
	if _, err := p.Send(context.Background(), strings.NewReader(lines)); err != nil {
		fmt.Println(err)
	}

	ctx := context.Background()
	c := client.Consumer{Path: consume, Name: "review-ui-1", Prefetch: 16}
	s, err := c.Attach(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for open := true; open; {
		e, err := s.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e.Kind {
		case client.Delivered:
			fmt.Printf("to decide: %s\n", e.Delivery.IdempotencyKey)
			// Alice looks at it, and then:
			err = s.Send(ctx, e.Lease, client.Answer{Verb: client.Ack, Outcome: "APPROVED", By: "alice"})
		case client.LeaseEnding:
			err = s.Send(ctx, e.Lease, client.Answer{Verb: client.Extend}) // she is still at it
		case client.Settled:
			fmt.Println("decided, and on the disk")
			open = false // she goes home
		case client.Refused:
			fmt.Println("it was decided elsewhere:", e.Code)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := s.Detach(ctx, nil); err != nil {
		fmt.Println(err)
	}
	// Output:
	// to decide: k1
	// decided, and on the disk
}
