package storetest

import (
	"fmt"

	"breakwater/queue"
)

// stepEdit gives dead letters other content: new ones and known ones, under their own
// key, another's or a new one, some that no gate lets in, and some of a line that the
// letter no longer has.
func (m *machine) stepEdit(c *choices) {
	m.Helper()
	letters, err := m.letters(m.stores[0])
	if err != nil {
		m.Fatalf("dead letters: %v", err)
	}
	var edits []queue.Edit
	for range 1 + c.below(2) {
		e := queue.Edit{Seq: uint64(c.below(m.fresh + 3)), Line: m.line(c).Message.Line}
		if len(letters) > 0 && !c.oneIn(8) {
			x := letters[c.below(len(letters))]
			e.Seq, e.Was = x.Seq, x.LineHash
			m.edited = append(m.edited, x.Line)
			if x.EditedHash != (queue.Hash{}) && !c.oneIn(8) {
				e.Was = x.EditedHash
			}
			if c.below(3) > 0 && x.IdempotencyKey != "" && x.PartitionKey != "" {
				e.Line = m.like(&x, of(c, "1.00", "2.00", "3.000", "-1042.37"), of(c, "", "JPY", "EUR"))
			}
		}
		m.Logf("  seq %d: %s", e.Seq, e.Line)
		edits, m.edited = append(edits, e), append(m.edited, e.Line)
	}
	a := m.action()
	a.DryRun = c.oneIn(6)
	all(m, "edit", func(s queue.Store) ([]queue.EditResult, error) { return s.Edit(m.ctx, a, edits) })
}

// like is a line under the keys of a message.
func (m *machine) like(x *queue.Exception, amount, currency string) []byte {
	m.Helper()
	spec := fmt.Sprintf("%s@%s amount=%s", x.IdempotencyKey, x.PartitionKey, amount)
	if currency != "" {
		spec += " currency=" + currency
	}
	line, err := lineOf(m.now(), spec)
	if err != nil {
		m.Fatalf("notation: %v", err)
	}
	return []byte(line)
}
