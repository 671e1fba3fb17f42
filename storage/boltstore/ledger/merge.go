package ledger

import "bytes"

// source yields records in ascending key order.
type source interface {
	current() record // nil at the end
	advance() error
}

// merged yields the union of its sources in key order. Sources are given newest
// first, and the newest record of a key hides the others.
//
// The smallest key is looked for one source after the other: with at most 18
// sources (16 segments, two heads) that beats a heap in length and in speed.
type merged struct {
	sources []source
}

// next returns the next record, nil at the end. The record is valid until the
// end of the transaction.
func (m *merged) next() (record, error) {
	var least record
	var newest source
	var hidden bool // some other source has the same key
	for _, s := range m.sources {
		r := s.current()
		if r == nil {
			continue
		}
		c := -1
		if least != nil {
			c = bytes.Compare(r[:16], least[:16])
		}
		if c < 0 {
			least, newest, hidden = r, s, false
		} else if c == 0 {
			hidden = true
		}
	}
	if least == nil {
		return nil, nil
	}
	if !hidden {
		return least, newest.advance()
	}
	for _, s := range m.sources {
		if r := s.current(); r != nil && bytes.Equal(r[:16], least[:16]) {
			if err := s.advance(); err != nil {
				return nil, err
			}
		}
	}
	return least, nil
}
