package boltstore

import (
	"context"
	"fmt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// Edit gives dead letters new content; see [queue.Store].
func (s *Store) Edit(ctx context.Context, a queue.Action, edits []queue.Edit) ([]queue.EditResult, error) {
	var res []queue.EditResult
	err := s.do(ctx, &operation{read: a.DryRun, apply: func(x *txn) error {
		res = make([]queue.EditResult, len(edits))
		for i := range edits {
			if err := x.edit(&a, &edits[i], &res[i]); err != nil {
				return fmt.Errorf("edit dead letter %d: %w", edits[i].Seq, err)
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// edit edits one dead letter, or says in r why not.
func (x *txn) edit(a *queue.Action, e *queue.Edit, r *queue.EditResult) error {
	d, ok, err := x.letter(e.Seq)
	if err != nil {
		return err
	}
	if !ok {
		r.Seq = e.Seq
		r.Refuse(queue.CodeNotFound, "", "it is not a dead letter")
		return nil
	}
	if r.Seq = d.seq; d.damaged {
		r.Refuse(queue.CodeInternal, "", refuseDamaged)
		return nil
	}
	was, err := parseRecord(d.record)
	if err != nil {
		return err
	}
	l := d.describe(&was)
	m := e.Check(&l, r)
	if r.Code != "" {
		return nil
	}
	of, err := x.ownerBeside(d.seq, &m)
	if inDoubt(err) {
		r.Refuse(queue.CodeStorageUnavailable, "", doubtText)
		return nil
	}
	if err != nil {
		return err
	}
	if of != 0 {
		r.Known(of)
	}
	if of != 0 || a.DryRun {
		return nil
	}
	is := queue.StoredOf(d.seq, &m)
	x.record(queue.EditedRecord(&was.msg, &is, &r.Before, &r.After, a))
	if err := x.reserve(&d, &was, &is); err != nil {
		return err
	}
	return x.rewrite(&d, &was, &m)
}

// describe is the letter as the rules look at it.
func (d *deadLetter) describe(m *record) queue.Letter {
	return queue.Letter{
		Stored: m.msg, Code: d.meta.Code, NotBefore: m.notBefore, Ordered: d.ordered(), Edited: m.past.edited, Content: d.content(m),
	}
}

// content identifies what the letter is now.
func (d *deadLetter) content(m *record) queue.Content {
	c := queue.Content{
		SourceHash: m.msg.SourceHash, LineHash: d.line, LineBytes: d.meta.LineBytes,
		Route: m.route, Priority: m.priority, NotBefore: m.notBefore,
	}
	if m.past.edited {
		c.LineHash, c.LineBytes = queue.LineHash(m.msg.Line), int64(len(m.msg.Line))
	}
	return c
}

// ownerBeside returns the seq of the other message whose idempotency key or former
// content m has; 0 if there is none.
func (x *txn) ownerBeside(seq uint64, m *queue.Message) (uint64, error) {
	key := ledger.KeyOf(x.t.secret, m.IdempotencyKey)
	e, err := x.recall(key)
	if err != nil || x.t.taken(e) && e.Seq != seq {
		return e.Seq, err
	}
	e, ok, err := x.follow(x.contentName(key, fingerprint(m.SourceHash, m.Currency, m.PartitionKey)))
	if ok && e.Seq != seq {
		return e.Seq, err
	}
	return 0, err
}

// reserve makes the ledger know a dead letter by what it is edited to, and by all that
// it was: what was sent, and, of an exception that was in the order, each content that
// a handler may have seen. What a letter from the door was in between nobody has seen.
func (x *txn) reserve(d *deadLetter, was *record, is *queue.Stored) error {
	before, now := ledgerEntry(x.t.secret, &was.msg), ledgerEntry(x.t.secret, is)
	now.State = ledger.StateDead
	if d.owns() && before.Key != now.Key {
		before.State = ledger.StateForgotten
		x.remember(before)
	}
	if d.owns() && before.Key == now.Key {
		x.remember(now)
	} else {
		held, err := x.recall(now.Key)
		if err != nil {
			return err
		}
		x.claimKey(now, held)
	}
	if err := x.sweepAliases(); err != nil {
		return err
	}
	to := alias{key: now.Key, seq: d.seq}
	if d.ordered() {
		if before.Fingerprint == now.Fingerprint {
			return nil
		}
		return x.alias(x.contentName(before.Key, before.Fingerprint), to)
	}
	if err := x.alias(x.lineName(d.line), to); err != nil {
		return err
	}
	sent, err := queue.ParseLine(was.sent().line)
	if err != nil || d.flags&deadCut != 0 {
		return nil // the gates do not let it in: it has no content
	}
	stored := queue.StoredOf(d.seq, &sent)
	first := ledgerEntry(x.t.secret, &stored)
	return x.alias(x.contentName(first.Key, first.Fingerprint), to)
}

// rewrite stores a dead letter with new content, and beside it what was sent.
func (x *txn) rewrite(d *deadLetter, was *record, m *queue.Message) error {
	rec := appendRecord(nil, m, hashKey(x.t.secret, m.PartitionKey))
	sealRecord(rec, d.seq, was.acceptedAt)
	kept := was.past
	if !kept.edited {
		kept.edited, kept.sent = true, sentLine{hash: d.line, bytes: d.meta.LineBytes, line: was.msg.Line}
	}
	rec, err := withPast(rec, &kept)
	if err != nil {
		return err
	}
	if id := letterOf(d.line); x.t.letters[id] == int64(d.seq) {
		delete(x.t.letters, id) // the line sent again is a duplicate from now on
	}
	x.t.countLetter(d, -1)
	d.flags |= deadEdited
	d.record = rec
	x.t.countLetter(d, 1)
	b, err := appendDead(nil, d)
	if err != nil {
		return err
	}
	return x.b.dead.Put(seqKey(d.seq), b)
}
