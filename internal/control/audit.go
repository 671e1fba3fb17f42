package control

import (
	"context"
	"net/http"
	"slices"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

const (
	// exportFlush is how many bytes of records are sent at a time.
	exportFlush = 64 << 10
	// maxExport bounds the limit of an export. Without a limit it has none: it is a
	// stream, and holds one piece.
	maxExport = 1_000_000_000
	// verifyAgain is when to ask again while a verification runs, in seconds.
	verifyAgain = 5
)

// audit streams records as NDJSON. A stream that ends early is a cut connection, so
// that nobody takes a part for the whole.
func (s *Server) audit(x *exchange) error {
	q, limit, err := trailQuery(x.query)
	if err != nil {
		return err
	}
	ctx, cancel := x.streaming()
	defer cancel()
	if x.r.Method == http.MethodHead { // what there would be to read is not read
		x.head(http.StatusOK, api.NDJSON)
		return nil
	}
	out := export{x: x, left: limit}
	err = s.o.Store.Trail(ctx, q, out.record)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = out.failed
	}
	if err != nil {
		return err
	}
	out.flush()
	return out.failed
}

// trailQuery reads which records are wanted, and at most how many.
func trailQuery(q query) (t queue.TrailQuery, limit uint64, err error) {
	numbers := []struct {
		key                    string
		least, most, otherwise uint64
		to                     *uint64
	}{
		{"after_n", 0, most, 0, &t.AfterN},
		{"seq", 1, most, 0, &t.Seq},
		{"limit", 1, maxExport, most, &limit},
	}
	for _, n := range numbers {
		if *n.to, err = q.number(n.key, n.least, n.most, n.otherwise); err != nil {
			return t, 0, err
		}
	}
	t.TraceID, t.PartitionKey, t.Event = q["trace_id"], q["partition_key"], queue.Event(q["event"])
	if t.Event != "" && !slices.Contains(queue.Events[:], t.Event) {
		return t, 0, usage("%q is not an event of the trail", excerpt(q["event"]))
	}
	if t.Since, err = q.time("since"); err != nil {
		return t, 0, err
	}
	t.Until, err = q.time("until")
	return t, limit, err
}

// streaming returns a context for an answer that may take long: it also ends when
// the server begins to stop.
func (x *exchange) streaming() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(x.r.Context())
	ending, ok := ctx.Value(endingKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	unwatch := context.AfterFunc(ending, cancel)
	return ctx, func() { unwatch(); cancel() }
}

// export sends records. The store reads them in pages and calls record with nothing
// open or locked, so a client that reads slowly holds up nobody but itself.
type export struct {
	x      *exchange
	buf    []byte
	left   uint64
	failed error // the client has gone
}

// record adds one record and reports whether more are wanted.
func (e *export) record(r queue.Record) bool {
	e.buf = r.AppendNDJSON(e.buf)
	e.left--
	if len(e.buf) >= exportFlush {
		e.flush()
	}
	return e.left > 0 && e.failed == nil
}

// flush sends what there is, and gives the client time to read it.
func (e *export) flush() {
	if !e.x.begun {
		e.x.head(http.StatusOK, api.NDJSON)
	}
	_ = e.x.control.SetWriteDeadline(time.Now().Add(writeTime)) // see exchange.deadlines
	if _, e.failed = e.x.w.Write(e.buf); e.failed == nil {
		e.failed = e.x.control.Flush()
	}
	e.buf = e.buf[:0]
}

// verify checks the chain and the trail of the live file, and a witness if one is
// given. It reads all there is, so there is one at a time.
func (s *Server) verify(x *exchange) error {
	var in api.VerifyAct
	if err := x.body(&in); err != nil {
		return err
	}
	var o queue.VerifyOptions
	if in.Witness != "" {
		var ok bool
		if o.Witness, ok = queue.ParseHead(in.Witness); !ok || o.Witness.Block == 0 {
			p := usage("witness %q is not a head", excerpt(in.Witness))
			p.hint = "a witness is BLOCK:HASH, as an end line gives them"
			return p
		}
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		return busy("a verification is running", verifyAgain)
	}
	ctx, cancel := x.streaming()
	defer cancel()
	v, err := s.o.Store.Verify(ctx, o)
	if err != nil {
		return err
	}
	return x.ok(verificationOf(&v, o.Witness.Block != 0))
}

// verificationOf is a verification as the API shows it.
func verificationOf(v *queue.Verification, witness bool) api.Verification {
	doc := api.Verification{
		Sound: len(v.Findings) == 0, Blocks: v.Blocks, Records: v.Records,
		Audit:  api.Audit{Block: v.Head.Block, Head: v.Head.Hash.String(), Records: v.Records},
		Events: map[string]uint64{}, Findings: []api.Finding{}, More: v.More,
	}
	if witness {
		doc.WitnessFound = &v.WitnessFound
		doc.Sound = doc.Sound && v.WitnessFound
	}
	for e, n := range v.Events {
		doc.Events[string(e)] = n
	}
	for _, f := range v.Findings {
		doc.Findings = append(doc.Findings, api.Finding{What: f.What, Block: f.Block, N: f.N, Seq: f.Seq})
	}
	return doc
}
