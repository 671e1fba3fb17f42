// Package client is for programs that send exceptions to breakwater, and for those that
// work on them. It speaks with the Unix sockets of a running breakwater and needs nothing
// but the standard library. What goes over the sockets is described in docs/protocol.md;
// any language can do it without this package.
//
// # Sending
//
// A [Producer] sends lines to enqueue.sock and has a receipt for each:
//
//	p := client.Producer{Path: "/run/breakwater/enqueue.sock"}
//	result, err := p.Send(ctx, lines)
//
// "accepted" and "duplicate" mean that the exception is on the server's disk. A lost
// connection is made again and what has no receipt is sent again; the server knows it by
// its idempotency key, so that nothing is stored twice. What is rejected is sent again, too,
// before anything more is: the order of the lines is kept.
//
// # Working
//
// A [Consumer] attaches to consume.sock and is handed exceptions, one of a partition key
// at a time and in its order:
//
//	c := client.Consumer{Path: "/run/breakwater/consume.sock", Name: "post-journal", Prefetch: 8}
//	err := c.Run(ctx, func(ctx context.Context, d client.Delivery) client.Answer {
//		// Post it under d.IdempotencyKey, so that a second delivery finds the first one's work.
//		return client.Answer{Verb: client.Ack, Outcome: "POSTED"}
//	})
//
// Each delivery comes with a lease: the right to answer it, for a time. [Consumer.Run]
// extends leases while their work goes on, and comes back after lost connections and
// restarts of the server with the leases that it had. An answer that was given is given
// again until the server has confirmed that it is on its disk.
//
// Delivery is at least once: a program that dies after its work and before its answer is
// handed the exception again, with Redelivered set. So the work must be recognised by
// the idempotency key: the one thing that cannot be done here.
//
// A program that decides itself when to answer and to extend, like a tool for people, uses
// a [Session]: its Next returns what the server says, its Send answers.
package client
