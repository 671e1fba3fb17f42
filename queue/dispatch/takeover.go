package dispatch

import (
	"context"

	"breakwater/queue"
)

// takeover is how far a consumer has got with the leases that it had before.
type takeover struct {
	after uint64 // the greatest fence it was given again
	more  bool   // there are others: nothing new is claimed before it has them
}

// resume puts the next of the leases that the consumer had before into its mailbox, in
// the order in which they were given: as many as the mailbox takes, and prefetch allows
// beside what it has not settled yet.
//
// It must not tell of a message that is settled already. So what is answered or taken
// back while the store is asked is left out, as with a claim.
func (s *Session) resume(ctx context.Context) error {
	s.mu.Lock()
	if s.left {
		s.mu.Unlock()
		return queue.ErrDetached
	}
	after := s.former.after
	s.claiming = true
	s.busy++
	s.mu.Unlock()

	res, err := s.r.store.TakeOver(ctx, queue.TakeOverRequest{
		Now: s.r.now(), Owner: s.a.Owner, After: after, MaxBytes: mailboxBytes,
	})
	for _, d := range res.Damaged {
		s.r.log.Error("a leased message is damaged; its lease runs on", "seq", d.Seq, "consumer", s.a.Owner.Name, "error", d.What)
	}
	if err != nil {
		err = s.failed(ctx, "take over leases", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := 0
	for taken < len(res.Deliveries) && len(s.unsettled) < s.a.Prefetch {
		s.former.after = res.Deliveries[taken].Token.Fence
		s.take(&res.Deliveries[taken], false)
		taken++
	}
	if err == nil {
		s.former.more = taken < len(res.Deliveries) || res.More && taken > 0
	}
	s.endClaimNow()
	s.r.wake.raise()
	return err
}

// knowRest has a session that was left know of the leases that it was not given again
// yet: they are put back with the others, or stay.
func (s *Session) knowRest(ctx context.Context) error {
	for after, more := s.former.after, s.former.more; more; {
		res, err := s.r.store.TakeOver(ctx, queue.TakeOverRequest{
			Now: s.r.now(), Owner: s.a.Owner, After: after, MaxBytes: mailboxBytes,
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		for i := range res.Deliveries {
			d := &res.Deliveries[i]
			after = d.Token.Fence
			s.unsettled[d.Token] = &lent{route: d.Route, deadline: d.Deadline}
		}
		s.mu.Unlock()
		more = res.More && len(res.Deliveries) > 0
	}
	return nil
}

// Revoked is to be called with what an operator has taken back: its former holders are
// told nothing of it any more, and get other work. Any other consumer may have the
// messages at once, the former one not before the end of the lease that it had.
func (r *Runner) Revoked(revoked []queue.Revoked) {
	for i := range revoked {
		v := &revoked[i]
		if v.Code != "" {
			continue
		}
		if s := r.desk.find(v.Owner); s != nil {
			if l := s.lose(v.Token); l != nil {
				r.desk.open(v.Message.PartitionKey, l.deadline)
			}
		}
		if v.DeadCode != "" {
			r.raise(v.DeadCode, "", "dead letter", &v.Message)
		}
	}
	r.Wake()
}
