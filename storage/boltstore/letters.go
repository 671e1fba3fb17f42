package boltstore

import (
	"context"
	"encoding/binary"

	"breakwater/queue"
)

const (
	// letterStep is how many dead letters one read looks at, letterBytes ends it once
	// they are so many bytes: some milliseconds of the committer's time.
	letterStep  = 1024
	letterBytes = 4 << 20
)

// DeadLetters lists dead letters; see [queue.Reader].
func (s *Store) DeadLetters(ctx context.Context, q queue.LetterQuery) (page queue.LetterPage, err error) {
	q.Limit = min(q.Limit, MaxPage)
	err = s.look(ctx, func(x *txn) (err error) {
		page = queue.LetterPage{}
		if q.Seq != 0 {
			return x.oneLetter(&q, &page)
		}
		w := letterWalk{txn: x, q: &q, page: &page, key: hashKey(x.t.secret, q.PartitionKey)}
		return w.walk()
	})
	if err != nil {
		return queue.LetterPage{}, err
	}
	return page, nil
}

// oneLetter is the list of at most one.
func (x *txn) oneLetter(q *queue.LetterQuery, page *queue.LetterPage) error {
	d, ok, err := x.letter(q.Seq)
	if err != nil || !ok || !q.After.Less(d.rank()) {
		return err
	}
	w := letterWalk{txn: x, q: q, page: page, key: hashKey(x.t.secret, q.PartitionKey)}
	return w.meet(&d)
}

// letterWalk reads a page of dead letters: the bucket, by seq, and between its letters
// those whose place is not their seq.
type letterWalk struct {
	*txn
	q     *queue.LetterQuery
	page  *queue.LetterPage
	key   keyHash // of q.PartitionKey
	bytes int     // looked at
}

func (w *letterWalk) walk() error {
	c := w.b.dead.Cursor()
	at, value := c.Seek(seqKey(w.q.After.Seq + 1))
	late := w.t.late[w.t.late.from(w.q.After):]
	for range letterStep {
		if len(w.page.Letters) >= w.q.Limit || w.bytes >= letterBytes {
			return nil
		}
		next := queue.Place{}
		if at != nil {
			next.Seq = binary.BigEndian.Uint64(at)
		}
		if len(late) > 0 && (at == nil || late[0].place.Less(next)) {
			d, ok, err := w.letter(late[0].seq)
			if err != nil {
				return err
			}
			if w.page.Next = late[0].place; ok {
				if err := w.meet(&d); err != nil {
					return err
				}
			}
			late = late[1:]
			continue
		}
		if at == nil {
			w.page.Next = queue.Place{} // that was all
			return nil
		}
		d, err := w.letterIn(next.Seq, value)
		if err != nil {
			return err
		}
		if w.page.Next = next; d.rank() == next { // else it comes at its own place
			if err := w.meet(&d); err != nil {
				return err
			}
		}
		at, value = c.Next()
	}
	return nil
}

// ofOther reports whether a letter's key is certainly not the one that is asked for.
func (w *letterWalk) ofOther(d *deadLetter) bool {
	return w.q.PartitionKey != "" && len(d.record) >= recordHeader && keyHash(d.record[offKey:offSource]) != w.key
}

// meet adds a letter to the page, if it is wanted.
func (w *letterWalk) meet(d *deadLetter) error {
	w.bytes += len(d.record)
	if w.q.Code != "" && d.meta.Code != w.q.Code || w.ofOther(d) {
		return nil // before its record is decoded
	}
	x, err := d.exception()
	if err != nil || !w.q.Matches(&x) {
		return err
	}
	if w.q.NoLines {
		x.Line, x.Sent = nil, nil
	}
	w.page.Letters = append(w.page.Letters, x)
	return nil
}
