package dispatch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"breakwater/queue"
)

// unreadAfter is how long a delivery may lie in the mailbox of a consumer that does
// not read, at most: then it goes back, for others.
const unreadAfter = 10 * time.Second

// The reasons of DETACHED, and of the RELEASED that come with it.
const (
	leftByItself = "it detached"
	leftBroken   = "its connection is gone; its leases stay until their deadlines"
	leftDraining = "the process is draining; its leases stay"
	leftUntold   = "its consumer was not told of it"
)

// Detach ends the session: nothing more is delivered, and what the consumer has not
// settled is put back, uncounted. The error is that of ctx, ErrDetached when the
// session was over already, or the store's; leases that could not be put back stay
// until their deadlines.
func (s *Session) Detach(ctx context.Context) error {
	if !s.leave() {
		return queue.ErrDetached
	}
	defer s.r.desk.free(s)
	unknown := s.knowRest(ctx)
	s.mu.Lock()
	tokens := slices.Collect(maps.Keys(s.unsettled))
	s.mu.Unlock()
	back, err := s.putBack(ctx, tokens, leftByItself)
	return s.noteLeft(ctx, leftByItself, back, unknown, err)
}

// Break ends the session of a consumer whose connection is gone. What it was told of
// stays leased until its deadline: it may come back and take it over, or its answer
// may be on its way. What it was not told of goes back. The error is that of ctx or
// the store's failure; nil if the session was over already.
func (s *Session) Break(ctx context.Context) error {
	if !s.leave() {
		return nil
	}
	defer s.r.desk.free(s)
	unknown := s.knowRest(ctx)
	back, err := s.putBack(ctx, tokensOf(s.untold()), leftUntold)
	reason := leftBroken
	if s.r.Draining() {
		reason = leftDraining
	}
	return s.noteLeft(ctx, reason, back, unknown, err)
}

// leave ends the session: nothing is told any more, and no answer is begun. It returns
// when what is under way has ended, so that whoever comes next under this name finds
// the leases as they stay. false: somebody else has ended it.
func (s *Session) leave() bool {
	s.r.desk.unseat(s)
	s.mu.Lock()
	if s.left {
		s.mu.Unlock()
		return false
	}
	s.left = true
	close(s.over)
	quiet := make(chan struct{})
	if s.quiet = quiet; s.busy == 0 {
		close(quiet)
	}
	s.mu.Unlock()
	<-quiet // every call of the store ends
	return true
}

// begin says that the leases are about to change by an answer; false: the session is
// over. done says that they have.
func (s *Session) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left {
		s.busy++
	}
	return !s.left
}

func (s *Session) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doneNow()
}

func (s *Session) doneNow() {
	if s.busy--; s.busy == 0 && s.left {
		close(s.quiet)
	}
}

// untold empties the mailbox of what nobody was ever told of, and returns it. What was
// taken over stays: it was told before.
func (s *Session) untold() (fresh []queue.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mailbox = slices.DeleteFunc(s.mailbox, func(d queue.Delivery) bool {
		l := s.unsettled[d.Token]
		if l != nil && l.fresh {
			fresh = append(fresh, d)
		}
		return l == nil || l.fresh
	})
	return fresh
}

func tokensOf(deliveries []queue.Delivery) []queue.Token {
	tokens := make([]queue.Token, len(deliveries))
	for i := range deliveries {
		tokens[i] = deliveries[i].Token
	}
	return tokens
}

// putBack releases leases, uncounted, and returns how many there were.
func (s *Session) putBack(ctx context.Context, tokens []queue.Token, reason string) (int, error) {
	return s.putBackBy(tokens, reason, func(p queue.Policy, settlements []queue.Settlement) ([]queue.SettleResult, error) {
		return s.r.trySettle(ctx, nil, p, settlements)
	})
}

func (s *Session) putBackBy(tokens []queue.Token, reason string,
	settle func(queue.Policy, []queue.Settlement) ([]queue.SettleResult, error),
) (int, error) {
	if len(tokens) == 0 {
		return 0, nil
	}
	slices.SortFunc(tokens, func(a, b queue.Token) int { return cmp.Compare(a.Fence, b.Fence) })
	r, now := s.r, s.r.now()
	settlements := make([]queue.Settlement, len(tokens))
	s.mu.Lock()
	for i, t := range tokens {
		l := s.unsettled[t]
		settlements[i] = queue.Settlement{
			Token: t, Owner: s.a.Owner, Verb: queue.Release, At: now, Reason: reason,
			Unanswered: l != nil && !l.fresh, // what it was told of it may have worked on
		}
	}
	s.mu.Unlock()
	results, err := settle(r.settings.Load().Policy, settlements)
	if fatal(err) {
		r.fail("put back what a consumer had", err)
	}
	if err != nil {
		return 0, err
	}
	back := 0
	s.mu.Lock()
	for i := range results {
		if ended(results[i].Code) {
			s.drop(tokens[i])
		}
		if results[i].Code == "" {
			back++
		}
	}
	s.mu.Unlock()
	r.wake.raise()
	return back, nil
}

// noteLeft writes down that the consumer is gone, what was put back, and how many
// leases it keeps. It returns what went wrong with that and before.
func (s *Session) noteLeft(ctx context.Context, reason string, back int, before ...error) error {
	s.mu.Lock()
	kept := len(s.unsettled)
	s.mu.Unlock()
	left := s.record(queue.EventDetached, reason, struct {
		Released int `json:"released"`
		Kept     int `json:"kept"`
	}{back, kept})
	err := errors.Join(append(before, s.r.store.Note(ctx, left.TS, []queue.Record{left}))...)
	if fatal(err) {
		s.r.fail("detach", err)
	}
	return err
}

// clearDesk puts back what lies in the mailboxes when a drain begins: nobody is told
// of anything new. It returns how many there were.
func (r *Runner) clearDesk(ctx context.Context) (back int64) {
	for _, at := range r.desk.attached() {
		n, err := at.putBack(ctx, tokensOf(at.untold()), draining)
		if back += int64(n); err != nil {
			return back
		}
	}
	return back
}

// putBackUnread puts back what consumers that do not read were not told of. Others can
// work on it, and a delivery that nobody saw must not count as one.
func (r *Runner) putBackUnread(ctx context.Context, now time.Time) {
	for _, at := range r.desk.attached() {
		if at.stall(now) && at.begin() {
			at.putBackUnread(ctx)
			at.done()
		}
	}
}

func (s *Session) putBackUnread(ctx context.Context) {
	unread := s.untold()
	n, err := s.putBackBy(tokensOf(unread), leftUntold, func(p queue.Policy, settlements []queue.Settlement) ([]queue.SettleResult, error) {
		return s.r.settleOnce(ctx, p, settlements) // the keeper has others to look after
	})
	if err != nil {
		s.restore(unread)
	} else if n > 0 {
		s.r.log.Warn("a consumer does not read; what it was not told of goes back", "consumer", s.a.Owner.Name, "messages", n)
	}
}

// stall reports whether the consumer has left its mailbox unread for too long. It gets
// nothing more until it asks again.
func (s *Session) stall(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mailbox) == 0 || now.Sub(s.unread) < min(unreadAfter, s.a.Lease/endingShare) {
		return false
	}
	s.stalled = true
	return true
}

// restore puts back into the mailbox what could not be put back into the store.
func (s *Session) restore(unread []queue.Delivery) {
	s.mu.Lock()
	s.mailbox = append(unread, s.mailbox...)
	s.mu.Unlock()
	s.bell.raise()
}
