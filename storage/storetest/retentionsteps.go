package storetest

import (
	"time"

	"breakwater/queue"
)

// stepExpire is a step of retention; what is kept for how long is a reload away.
func (m *machine) stepExpire(c *choices) {
	m.Helper()
	r := m.clock.expire(&m.expired)
	r.Epoch = of(c, 0, 5*time.Second, 20*time.Second)
	r.Ledger = of(c, 30*time.Second, 5*time.Second, 2*time.Minute, 0)
	m.Logf("  %s passed, epochs of %s, keys for %s", r.Passed, r.Epoch, r.Ledger)
	all(m, "expire", func(s queue.Store) (queue.ExpireResult, error) {
		res, err := s.Expire(m.ctx, r)
		res.More = false // a store may have work of its own
		return res, err
	})
}

// stepTrim is a step of trimming.
func (m *machine) stepTrim(c *choices) {
	m.Helper()
	r := queue.TrimRequest{
		Now: m.now(), Audit: of(c, time.Second, 20*time.Second, time.Minute, 0), RequireArchive: c.oneIn(4),
	}
	m.Logf("  records for %s, of an archive %v", r.Audit, r.RequireArchive)
	all(m, "trim", func(s queue.Store) (queue.TrimResult, error) { return s.Trim(m.ctx, r) })
}
