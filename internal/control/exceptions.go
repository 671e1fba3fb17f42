package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// Limits of a page. What is over them is on the next.
const (
	defaultLimit = 100

	// stepRows is how many exceptions are read at a time: each step takes a turn of
	// the store, and may hold the longest lines there are.
	stepRows = 32
	// maxPageBytes ends a page once the lines in it are so many bytes.
	maxPageBytes = 4 << 20
	// maxLooked ends a page that is filtered, however little it found.
	maxLooked = 20_000

	// maxHistory and maxHistoryBytes bound the records shown with one exception.
	maxHistory      = 1000
	maxHistoryBytes = 4 << 20
)

// list is a page of the store's lists.
type list func(ctx context.Context, after uint64, limit int) ([]queue.Exception, error)

// listing is one page being read.
type listing struct {
	read  list
	after uint64
	limit int
	lines bool                        // with the senders' bytes
	keep  func(*queue.Exception) bool // nil: everything
}

// newListing reads what all lists have in their query.
func newListing(q query, read list) (l listing, err error) {
	l.read = read
	if l.after, l.limit, err = q.page(); err != nil {
		return l, err
	}
	l.lines, err = q.truth("lines", true)
	return l, err
}

// page reads in steps until it has enough, has looked at enough, or there is no more.
func (l *listing) page(ctx context.Context) (api.List[api.Exception], error) {
	out := api.List[api.Exception]{Items: []api.Exception{}}
	after, size := l.after, 0
	for looked := 0; len(out.Items) < l.limit && size < maxPageBytes && looked < maxLooked; {
		want := stepRows
		if l.keep == nil {
			want = min(want, l.limit-len(out.Items))
		}
		step, err := l.read(ctx, after, want)
		if err != nil {
			return out, err
		}
		for i := range step {
			x := &step[i]
			if len(out.Items) == l.limit {
				break // the rest is read again for the next page
			}
			after = x.Seq
			looked++
			if l.keep != nil && !l.keep(x) {
				continue
			}
			if !l.lines {
				x.Line, x.Sent = nil, nil
			}
			size += len(x.Line)
			out.Items = append(out.Items, rowOf(x))
		}
		if len(step) < want && (len(step) == 0 || after == step[len(step)-1].Seq) {
			return out, nil
		}
	}
	out.Next = strconv.FormatUint(after, 10)
	return out, nil
}

// exceptions lists open exceptions, or looks up by what the sender knows.
func (s *Server) exceptions(x *exchange) error {
	_, byKey := x.query["idempotency_key"]
	_, byTrace := x.query["trace_id"]
	if (byKey || byTrace) && (byKey && byTrace || x.query["state"] != "" || x.query["partition_key"] != "") {
		return usage("idempotency_key and trace_id each stand alone: they find exceptions whatever their state")
	}
	l, err := newListing(x.query, s.o.Store.Exceptions)
	if err != nil {
		return err
	}
	switch {
	case byKey:
		l.read = s.withKey(x.query["idempotency_key"])
	case byTrace:
		l.read = s.withTrace(x.query["trace_id"], l.limit)
	default:
		if l.keep, err = openFilter(x.query); err != nil {
			return err
		}
	}
	doc, err := l.page(x.r.Context())
	if err != nil {
		return err
	}
	return x.ok(doc)
}

// openFilter selects by state and partition key; nil: everything.
func openFilter(q query) (func(*queue.Exception) bool, error) {
	state, err := q.state("state")
	if err != nil {
		return nil, err
	}
	key := q["partition_key"]
	if state == 0 && key == "" {
		return nil, nil
	}
	return func(x *queue.Exception) bool {
		return (state == 0 || x.State == state) && (key == "" || x.PartitionKey == key)
	}, nil
}

// withKey lists the message of an idempotency key: one, or none.
func (s *Server) withKey(key string) list {
	return func(ctx context.Context, after uint64, _ int) ([]queue.Exception, error) {
		seq, err := s.o.Store.Find(ctx, key)
		if errors.Is(err, queue.ErrNotFound) || err == nil && seq <= after {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return s.each(ctx, []uint64{seq})
	}
}

// withTrace lists the messages of a trace id, by seq. Which they are stands in the
// trail; it may be long, so it is read once for a page, at the first step.
func (s *Server) withTrace(id string, limit int) list {
	var seqs []uint64
	looked := false
	return func(ctx context.Context, after uint64, want int) (step []queue.Exception, err error) {
		if !looked {
			if seqs, err = s.seqsOfTrace(ctx, id, after, limit); err != nil {
				return nil, err
			}
			looked = true
		}
		n := min(want, len(seqs))
		step, err = s.each(ctx, seqs[:n])
		seqs = seqs[n:]
		return step, err
	}
}

// seqsOfTrace returns the smallest seqs of a trace id after the given one.
func (s *Server) seqsOfTrace(ctx context.Context, id string, after uint64, limit int) (seqs []uint64, err error) {
	err = s.o.Store.Trail(ctx, queue.TrailQuery{TraceID: id}, func(r queue.Record) bool {
		if at, known := slices.BinarySearch(seqs, r.Seq); !known && r.Seq > after && at < limit {
			seqs = slices.Insert(seqs, at, r.Seq)
			seqs = seqs[:min(len(seqs), limit)]
		}
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err() // a client that left must not be taken for the end of the trail
	}
	return seqs, err
}

// each reads exceptions one by one.
func (s *Server) each(ctx context.Context, seqs []uint64) ([]queue.Exception, error) {
	all := make([]queue.Exception, 0, len(seqs))
	for _, seq := range seqs {
		x, err := s.o.Store.Exception(ctx, seq)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// exception shows one, whatever its state, with its history.
func (s *Server) exception(x *exchange) error {
	seq, err := x.oneSeq()
	if err != nil {
		return err
	}
	found, err := s.o.Store.Exception(x.r.Context(), seq)
	if err != nil {
		return err
	}
	return s.detail(x, &found)
}

// oneSeq is the seq that the path names.
func (x *exchange) oneSeq() (uint64, error) {
	seq, ok := parseNumber(x.seq)
	if !ok || seq == 0 {
		p := usage("%s is not a seq", excerpt(x.seq))
		p.hint = "a seq is a number from 1; to look up by key use /v1/exceptions?idempotency_key= or ?trace_id="
		return 0, p
	}
	return seq, nil
}

// detail answers with an exception and its history.
func (s *Server) detail(x *exchange, found *queue.Exception) error {
	doc := api.Detail{Exception: rowOf(found), History: []json.RawMessage{}, HistoryTrimmed: found.Trimmed}
	size := 0
	err := s.o.Store.Trail(x.r.Context(), queue.TrailQuery{Seq: found.Seq}, func(r queue.Record) bool {
		if len(doc.History) == maxHistory || size >= maxHistoryBytes {
			doc.HistoryMore = true
			return false
		}
		line := r.AppendNDJSON(nil)
		size += len(line)
		doc.HistoryTrimmed = doc.HistoryTrimmed || r.CopyOf != 0
		doc.History = append(doc.History, line[:len(line)-1])
		return true
	})
	if err != nil {
		return err
	}
	return x.ok(doc)
}
