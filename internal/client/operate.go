package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// Status returns the counts.
func (c *Control) Status(ctx context.Context) (st api.Status, err error) {
	return st, c.get(ctx, "/v1/status", nil, &st)
}

// Exception returns one exception with its history; a *Problem with code NOT_FOUND
// if there is none.
func (c *Control) Exception(ctx context.Context, seq uint64) (d api.Detail, err error) {
	return d, c.get(ctx, "/v1/exceptions/"+strconv.FormatUint(seq, 10), nil, &d)
}

// DeadLetter is Exception for those that are dead.
func (c *Control) DeadLetter(ctx context.Context, seq uint64) (d api.Detail, err error) {
	return d, c.get(ctx, "/v1/dead-letters/"+strconv.FormatUint(seq, 10), nil, &d)
}

// WithKey lists the exceptions of an idempotency key: one or none. Lines that never
// entered the order are not found by theirs.
func (c *Control) WithKey(ctx context.Context, key string) iter.Seq2[api.Exception, error] {
	return pages[api.Exception](ctx, c, "/v1/exceptions", url.Values{"idempotency_key": {key}, "lines": {"false"}})
}

// WithTrace lists the exceptions of a trace id, whatever their state.
func (c *Control) WithTrace(ctx context.Context, id string) iter.Seq2[api.Exception, error] {
	return pages[api.Exception](ctx, c, "/v1/exceptions", url.Values{"trace_id": {id}, "lines": {"false"}})
}

// Letters selects dead letters. The zero value selects all.
type Letters struct {
	Code         string
	PartitionKey string
	DeadBefore   time.Time
	After        string // only those that come after this place
	Lines        bool   // with the senders' bytes
}

// query is the selection as the server reads it.
func (s *Letters) query() url.Values {
	q := url.Values{}
	set(q, "code", s.Code)
	set(q, "partition_key", s.PartitionKey)
	set(q, "dead_before", timeText(s.DeadBefore))
	set(q, "after", s.After)
	return q
}

// DeadLetters lists dead letters in the order in which they would be put back.
func (c *Control) DeadLetters(ctx context.Context, s Letters) iter.Seq2[api.Exception, error] {
	q := s.query()
	q.Set("lines", strconv.FormatBool(s.Lines))
	return pages[api.Exception](ctx, c, "/v1/dead-letters", q)
}

// LetterGroups counts dead letters by why they are dead.
func (c *Control) LetterGroups(ctx context.Context, s Letters) (g api.LetterGroups, err error) {
	return g, c.get(ctx, "/v1/dead-letters/groups", s.query(), &g)
}

// set adds a member to a query if it has a value: the server refuses empty ones.
func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(queue.AppendTime(nil, t))
}

// pages reads a list to its end, page by page. It holds one page; an error ends it.
func pages[T any](ctx context.Context, c *Control, path string, q url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if !q.Has("limit") {
			q.Set("limit", strconv.Itoa(api.MaxLimit))
		}
		for {
			var page api.List[T]
			if err := c.get(ctx, path, q, &page); err != nil {
				yield(none, err)
				return
			}
			for _, x := range page.Items {
				if !yield(x, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			if page.Next == q.Get("after") { // or it would go on for ever
				yield(none, errors.New("a list that does not go on: "+path))
				return
			}
			q.Set("after", page.Next)
		}
	}
}

// Keys lists partition keys, those that a person has to look at first; state, if not
// "", is one of api.KeyBlocked and its like. Whoever wants only the first few of them
// says how many, so that no more are read at a time.
func (c *Control) Keys(ctx context.Context, state string, few int) iter.Seq2[api.Key, error] {
	q := url.Values{}
	set(q, "state", state)
	if few > 1 && few < api.MaxLimit {
		q.Set("limit", strconv.Itoa(few))
	}
	return pages[api.Key](ctx, c, "/v1/keys", q)
}

// Why says why an exception does not run; a *Problem with code NOT_FOUND if there is
// none.
func (c *Control) Why(ctx context.Context, seq uint64) (w api.Why, err error) {
	return w, c.get(ctx, "/v1/exceptions/"+strconv.FormatUint(seq, 10)+"/why", nil, &w)
}

// WhyKey says why nothing of a partition key runs; a *Problem with code NOT_FOUND if
// nothing of it is open, held or blocked.
func (c *Control) WhyKey(ctx context.Context, key string) (w api.Why, err error) {
	return w, c.get(ctx, "/v1/keys/why", url.Values{"key": {key}}, &w)
}

// Records streams records of the trail as they are in it, one line each, without its
// line feed. A stream that was cut ends in an error. A line must not be kept.
func (c *Control) Records(ctx context.Context, t queue.TrailQuery) iter.Seq2[[]byte, error] {
	q := url.Values{}
	if t.Seq != 0 {
		q.Set("seq", strconv.FormatUint(t.Seq, 10))
	}
	set(q, "trace_id", t.TraceID)
	set(q, "partition_key", t.PartitionKey)
	set(q, "idempotency_key", t.IdempotencyKey)
	set(q, "event", string(t.Event))
	set(q, "since", timeText(t.Since))
	set(q, "until", timeText(t.Until))
	return func(yield func([]byte, error) bool) {
		ctx, cancel := context.WithCancel(ctx) // so that leaving early ends the server's reading
		defer cancel()
		res, err := c.send(ctx, http.MethodGet, "/v1/audit", q, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer res.Body.Close()
		lines := bufio.NewReaderSize(res.Body, queue.MaxRecordBytes)
		for {
			line, err := lines.ReadSlice('\n')
			switch {
			case errors.Is(err, io.EOF) && len(line) == 0:
				return
			case err != nil:
				yield(nil, fmt.Errorf("read the trail: %w", err))
				return
			}
			if !yield(bytes.TrimSuffix(line, []byte("\n")), nil) {
				return
			}
		}
	}
}

// Verify checks the chain and the trail, and looks for heads in it. It takes as long
// as it takes.
func (c *Control) Verify(ctx context.Context, a api.VerifyAct) (v api.Verification, err error) {
	return v, c.document(ctx, http.MethodPost, "/v1/audit/verify", nil, a, &v)
}

// Pause stops claims, Resume lets them go on.
func (c *Control) Pause(ctx context.Context, a api.Act) (s api.PauseState, err error) {
	return s, c.post(ctx, "/v1/pause", a, &s)
}

// Resume lets claims go on.
func (c *Control) Resume(ctx context.Context, a api.Act) (s api.PauseState, err error) {
	return s, c.post(ctx, "/v1/resume", a, &s)
}

// Drain begins the drain. It does not wait for its end.
func (c *Control) Drain(ctx context.Context, a api.Act) (s api.DrainState, err error) {
	return s, c.post(ctx, "/v1/drain", a, &s)
}

// Reload has the configuration read again; a *Problem with Reasons if it was refused.
func (c *Control) Reload(ctx context.Context, a api.Act) (s api.ReloadState, err error) {
	return s, c.post(ctx, "/v1/reload", a, &s)
}

// Archive has the store copied to a new file. It takes as long as it takes; the end of
// ctx ends it, and nothing is left.
func (c *Control) Archive(ctx context.Context, a api.ArchiveAct) (done api.Archive, err error) {
	return done, c.document(ctx, http.MethodPost, "/v1/archive", nil, a, &done)
}

// Archiving says how far the archive is that is being made.
func (c *Control) Archiving(ctx context.Context) (a api.Archiving, err error) {
	return a, c.get(ctx, "/v1/archive", nil, &a)
}

// Replay puts dead letters back, at most api.MaxLimit at a time.
func (c *Control) Replay(ctx context.Context, a api.LettersAct) (r api.Replayed, err error) {
	return r, c.post(ctx, "/v1/dead-letters/replay", a, &r)
}

// Discard ends dead letters, at most api.MaxLimit at a time.
func (c *Control) Discard(ctx context.Context, a api.LettersAct) (r api.Discarded, err error) {
	return r, c.post(ctx, "/v1/dead-letters/discard", a, &r)
}

// Edit gives a dead letter other content; a *Problem with status 412 if it has other
// content by now than the one that was edited.
func (c *Control) Edit(ctx context.Context, a api.EditAct) (r api.Edited, err error) {
	return r, c.post(ctx, "/v1/dead-letters/edit", a, &r)
}

// HoldKeys makes partition keys wait until they are released.
func (c *Control) HoldKeys(ctx context.Context, a api.KeysAct) (k api.Keys, err error) {
	return k, c.post(ctx, "/v1/keys/hold", a, &k)
}

// ReleaseKeys undoes HoldKeys, and with Waits ends the times that the keys wait for.
func (c *Control) ReleaseKeys(ctx context.Context, a api.KeysAct) (k api.Keys, err error) {
	return k, c.post(ctx, "/v1/keys/release", a, &k)
}
