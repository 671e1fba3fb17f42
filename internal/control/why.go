package control

import (
	"context"
	"errors"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// whyException says why one exception does not run.
func (s *Server) whyException(x *exchange) error {
	seq, err := x.oneSeq()
	if err != nil {
		return err
	}
	return s.why(x, queue.WhyQuery{Seq: seq})
}

// whyKey says why nothing of a partition key runs. The key stands in the query: a path
// cannot carry every byte that a key may have.
func (s *Server) whyKey(x *exchange) error {
	key, ok := x.query["key"]
	if !ok {
		return usage("say which key: /v1/keys/why?key=, percent-encoded")
	}
	return s.why(x, queue.WhyQuery{Key: key})
}

func (s *Server) why(x *exchange, q queue.WhyQuery) error {
	q.Now = s.o.Now()
	st, err := s.o.Store.Why(x.r.Context(), q)
	if errors.Is(err, queue.ErrNotFound) && q.Seq == 0 {
		p := missing("nothing of this key is open, held or blocked")
		p.hint = `what has ended: "breakwater audit export --key KEY"; what is scheduled for later: /v1/exceptions?state=scheduled`
		return p
	}
	if err != nil {
		return err
	}
	doc := api.Why{Seq: q.Seq, PartitionKey: q.Key, Causes: []api.Cause{}}
	if st.Key != nil {
		row := keyOf(st.Key)
		doc.Key, doc.State = &row, row.State
	}
	if e := st.Exception; e != nil {
		doc.PartitionKey, doc.State = e.PartitionKey, e.State.String()
	}
	for _, cause := range st.Causes(s.circumstances(q.Now)) {
		if err := s.ask(x.r.Context(), &cause); err != nil {
			return err
		}
		doc.Causes = append(doc.Causes, causeOf(&cause, q.Now))
	}
	return x.ok(doc)
}

// circumstances are what the process knows besides the store.
func (s *Server) circumstances(now time.Time) *queue.Circumstances {
	ready := s.o.Ready(nil, now)
	return &queue.Circumstances{
		Running: !s.o.Started.IsZero(), Draining: ready.Draining, MaxAttempts: ready.MaxAttempts, Routes: ready.Serving,
	}
}

// ask fills in, from the trail, in whose words a message was put back: the last
// failure, or why a handler asked to wait.
func (s *Server) ask(ctx context.Context, cause *queue.Cause) error {
	event := map[queue.Reason]queue.Event{queue.WhyRetry: queue.EventRetried, queue.WhyHold: queue.EventHeld}[cause.Reason]
	if event == "" {
		return nil
	}
	return s.o.Store.Trail(ctx, queue.TrailQuery{Seq: cause.Seq, Event: event}, func(r queue.Record) bool {
		cause.Text, cause.By, cause.Since = r.Reason, r.By, r.TS
		return ctx.Err() == nil
	})
}

// causeOf is a cause as the API shows it.
func causeOf(c *queue.Cause, now time.Time) api.Cause {
	doc := api.Cause{
		Reason: string(c.Reason), Words: words(c, now), Seq: c.Seq, Since: api.Time{Time: c.Since}, Until: api.Time{Time: c.Until},
		By: c.By, Owner: c.Owner, Route: string(c.Route), Code: string(c.Code), Text: c.Text, Outcome: c.Outcome,
		Count: c.Count, MaxAttempts: c.Most, More: c.More,
	}
	if c.Owner != "" {
		doc.Kind = kindOf(c.Consumer)
	}
	return doc
}
