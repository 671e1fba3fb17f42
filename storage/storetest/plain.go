package storetest

import (
	"slices"
	"time"

	"breakwater/queue"
)

// plain returns an answer of a store without what need not be equal in two stores:
// texts for people, the size of a file, nil or empty lists, and whatever a time
// has besides the microseconds of its wall clock. It changes what it is given.
func plain(answer any) any {
	switch r := answer.(type) {
	case queue.StoreStatus:
		r.FileBytes, r.FreeBytes, r.DiskFree = 0, 0, 0
		r.ArchivedAt = wall(r.ArchivedAt)
		if r.Paused != nil {
			r.Paused.Since = wall(r.Paused.Since)
		}
		for i := range r.Oldest {
			r.Oldest[i].AcceptedAt = wall(r.Oldest[i].AcceptedAt)
		}
		return r
	case queue.Exception:
		return plainException(r)
	case []queue.Exception:
		return each(r, plainException)
	case queue.AdmitResult:
		r.Receipts = each(r.Receipts, plainReceipt)
		return r
	case queue.ClaimResult:
		r.Next = time.Time{} // see machine.claim
		for i := range r.Deliveries {
			r.Deliveries[i] = each(r.Deliveries[i], plainDelivery)
		}
		return r
	case []queue.SettleResult:
		return each(r, func(s queue.SettleResult) queue.SettleResult { s.Error = ""; return s })
	case []queue.ActionResult:
		return each(r, plainResult)
	case []queue.EditResult:
		return each(r, func(e queue.EditResult) queue.EditResult { e.Error = ""; return e })
	case []queue.ExtendResult:
		return each(r, func(e queue.ExtendResult) queue.ExtendResult { e.Deadline = wall(e.Deadline); return e })
	case []queue.Reclaimed:
		return slices.Concat(r)
	case queue.TakeOverResult:
		r.Deliveries = plainDeliveries(r.Deliveries)
		return r
	case []queue.Revoked:
		return each(r, plainRevoked)
	case []queue.Lease:
		return each(r, plainLease)
	case []queue.Key:
		return plainKeys(r)
	case queue.Standing:
		return plainStanding(r)
	case []string:
		return slices.Concat(r)
	}
	return answer
}

// plainResult leaves of what a message would wait for only that it would.
func plainResult(a queue.ActionResult) queue.ActionResult {
	if a.Error = ""; a.Waits != "" {
		a.Waits = "said in words"
	}
	a.Wait = plainWait(a.Wait)
	return a
}

// each returns fn of each element; nil for an empty list.
func each[T, R any](list []T, fn func(T) R) []R {
	var out []R
	for _, x := range list {
		out = append(out, fn(x))
	}
	return out
}

func plainException(x queue.Exception) queue.Exception {
	for _, t := range []*time.Time{&x.NotBefore, &x.AcceptedAt, &x.Deadline, &x.DueAt, &x.SettledAt, &x.DeadAt} {
		*t = wall(*t)
	}
	if x.HeldBy != "" {
		x.HeldBy = "said in words"
	}
	x.Line, x.Sent = slices.Concat(x.Line), slices.Concat(x.Sent)
	return x
}

func plainReceipt(r queue.Receipt) queue.Receipt {
	r.SettledAt = wall(r.SettledAt)
	if r.Status == queue.Rejected {
		r.Error = "said in words"
	}
	return r
}

func plainDelivery(d queue.Delivery) queue.Delivery {
	d.AcceptedAt, d.Deadline = wall(d.AcceptedAt), wall(d.Deadline)
	return d
}

// wall is the time on the wall clock, in UTC, as it is stored.
func wall(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
