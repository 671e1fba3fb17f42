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
	for _, s := range m.sources {
		r := s.current()
		if r != nil && (least == nil || bytes.Compare(r[:16], least[:16]) < 0) {
			least = r
		}
	}
	if least == nil {
		return nil, nil
	}
	for _, s := range m.sources {
		r := s.current()
		if r != nil && bytes.Equal(r[:16], least[:16]) {
			if err := s.advance(); err != nil {
				return nil, err
			}
		}
	}
	return least, nil
}
