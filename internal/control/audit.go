package control

import (
	"context"
	"net/http"
	"slices"
	"strconv"
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
	// maxVerifyBody bounds the body of a verification: MaxWitnesses heads.
	maxVerifyBody = 16 << 20
	// maxTraced bounds the exceptions that a verification of the live file follows at
	// once, 100 to 250 bytes each: more are for a copy, and the memory of who asks.
	maxTraced = 250_000
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
	t.TraceID, t.PartitionKey, t.IdempotencyKey, t.Event = q["trace_id"], q["partition_key"], q["idempotency_key"], queue.Event(q["event"])
	if t.Event != "" && !slices.Contains(queue.Events[:], t.Event) {
		return t, 0, usage("%s is not an event of the trail", excerpt(q["event"]))
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

// verify checks the chain and the trail of the live file, and looks for heads in it.
// It reads all there is, so there is one at a time.
func (s *Server) verify(x *exchange) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		return busy("a verification is running", verifyAgain)
	}
	var in api.VerifyAct
	if err := x.bodyUpTo(&in, maxVerifyBody); err != nil {
		return err
	}
	o := queue.VerifyOptions{MaxOpen: maxTraced}
	var err error
	if o.Witnesses, err = witnessesOf(&in); err != nil {
		return err
	}
	ctx, cancel := x.streaming()
	defer cancel()
	v, err := s.o.Store.Verify(ctx, o)
	if err != nil {
		return err
	}
	return x.ok(verificationOf(&v))
}

// witnessesOf reads the heads that are to be looked for.
func witnessesOf(in *api.VerifyAct) (all []queue.Witness, err error) {
	if len(in.Witnesses) > api.MaxWitnesses {
		return nil, usage("witnesses must list at most %d heads", api.MaxWitnesses)
	}
	if in.Witness != "" {
		h, ok := queue.ParseHead(in.Witness)
		if !ok || h.Block == 0 {
			p := usage("witness %s is not a head", excerpt(in.Witness))
			p.hint = "a witness is BLOCK:HASH, as an end line gives them"
			return nil, p
		}
		all = append(all, queue.Witness{Head: h})
	}
	for i, w := range in.Witnesses {
		h, ok := queue.ParseHead(strconv.FormatUint(w.Block, 10) + ":" + w.Head)
		if !ok || h.Block == 0 {
			return nil, usage("witness %d of the list is not a head: its block is %d, its hash %s", i+1, w.Block, excerpt(w.Head))
		}
		all = append(all, queue.Witness{Head: h, N: w.N})
	}
	return all, nil
}

// verificationOf is a verification as the API shows it.
func verificationOf(v *queue.Verification) api.Verification {
	doc := api.Verification{
		Sound: len(v.Findings) == 0, Blocks: v.Blocks, Records: v.Records,
		Audit:        api.Audit{Block: v.Head.Block, Head: v.Head.Hash.String(), Records: v.Last.N, Origin: v.Origin},
		First:        stampOf(v.First),
		Last:         stampOf(v.Last),
		UntracedFrom: v.Untraced,
		Events:       map[string]uint64{}, Findings: []api.Finding{}, More: v.More,
	}
	if v.First.N > 1 {
		doc.Audit.FirstRecord = v.First.N
	}
	if v.Untraced == 0 {
		b := v.Balance
		doc.Balance = &api.Balance{
			Accepted: b.Accepted, Decided: b.Decided, Dead: b.Dead, Discarded: b.Discarded, Open: b.Open,
			Quarantined: b.Quarantined, QuarantinedDead: b.QuarantinedDead, QuarantinedDiscarded: b.QuarantinedDiscarded,
			QuarantinedAccepted: b.QuarantinedAccepted, DuplicatesSkipped: b.Duplicates, Deliveries: b.Deliveries,
		}
	}
	if len(v.Verdicts) > 0 {
		found := true
		for _, verdict := range v.Verdicts {
			found = found && verdict == queue.WitnessFound
			doc.Sound = doc.Sound && !verdict.Contradicts()
			doc.Verdicts = append(doc.Verdicts, string(verdict))
		}
		doc.WitnessFound = &found
	}
	for e, n := range v.Events {
		doc.Events[string(e)] = n
	}
	for _, f := range v.Findings {
		doc.Findings = append(doc.Findings, api.Finding{What: f.What, Block: f.Block, N: f.N, Seq: f.Seq})
	}
	return doc
}

// stampOf is a stamp as the API shows it; nil for none.
func stampOf(s queue.Stamp) *api.Stamp {
	if s.N == 0 {
		return nil
	}
	return &api.Stamp{N: s.N, TS: api.Time{Time: s.TS}}
}
