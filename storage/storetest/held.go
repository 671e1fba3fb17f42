package storetest

import (
	"fmt"
	"strings"
	"time"

	"breakwater/queue"
)

// Of TakeOver: a consumer that attaches again finds what it held, as it was (P4).
var takeOverPromises = []promise{
	{"brings_back_each_lease_as_it_was_in_the_order_of_the_claims", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		one := wants(consumer("ui"))
		one.Max = 1
		first := w.takeWant(one, "a1")
		w.ack(consumer("ui"), first...)
		w.given("a2@A priority=0")
		held := append(w.takeWant(one, "a2"), w.take(consumer("ui"), "b1 c1")...)
		w.pass(leaseTime / 2)
		w.extend(consumer("ui"), leaseTime, held[1]) // a later deadline, the same place in the list
		held[1].Deadline = w.now().Add(leaseTime)
		mark := w.mark()
		got := w.takeOver(consumer("ui"))
		for i := range held {
			held[i].Redelivered = true
		}
		equal(w, "deliveries", plainDeliveries(got), plainDeliveries(held))
		w.since(mark) // it is the same lease: nothing has happened to the message
		equal(w, "again", plainDeliveries(w.takeOver(consumer("ui"))), plainDeliveries(held))
	}},
	{"leaves_the_deadline_where_it_was", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		for range 3 { // as long as it is in time, and never longer
			w.pass(leaseTime / 3)
			equal(w, "held", ids(w.takeOver(consumer("ui"))), "a1")
		}
		w.pass(1)
		equal(w, "held", ids(w.takeOver(consumer("ui"))), "")
		w.states("a1 leased") // until somebody reclaims it
		equal(w, "reclaimed", len(w.reclaim()), 1)
		w.refused(w.answer(d, consumer("ui"), queue.Ack), queue.CodeExpired)
	}},
	{"leaves_tokens_given_before_the_break_good", func(w *world) {
		w.given("a1@A", "b1@B")
		old := w.take(consumer("ui"), "a1 b1")
		w.takeOver(consumer("ui"))
		w.ack(consumer("ui"), old[0])
		equal(w, "held", ids(w.takeOver(consumer("ui"))), "b1")
	}},
	{"is_for_the_same_owner_only", func(w *world) {
		w.given("a1@A", "b1@B")
		w.takeWant(func() queue.Want { ask := wants(consumer("ui")); ask.Max = 1; return ask }(), "a1")
		w.take(worker("ui"), "b1")
		for _, o := range []queue.Owner{
			{Kind: queue.Consumer, Name: "ui2", UID: 1000},
			{Kind: queue.Consumer, Name: "ui", UID: 1001},
			{Kind: queue.Worker, Name: "ui", UID: 1000},
			worker("ui"), {},
		} {
			equal(w, fmt.Sprint(o), ids(w.takeOver(o)), "")
		}
		equal(w, "its own", ids(w.takeOver(consumer("ui"))), "a1")
	}},
	{"finds_what_a_restart_kept", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(consumer("ui"), "a1 b1 c1")
		w.fail(consumer("ui"), ds[1])
		w.pass(leaseTime - time.Second)
		w.crash()
		got := w.takeOver(consumer("ui"))
		equal(w, "held", ids(got), "a1 c1")
		equal(w, "delivery", [4]any{got[0].Token, got[0].Number, got[0].Redelivered, got[0].Deadline.Equal(w.now().Add(leaseTime))},
			[4]any{ds[0].Token, 1, true, true})
		w.ack(consumer("ui"), ds[0], ds[2])
	}},
	{"comes_in_portions_where_that_is_asked_for", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D")
		w.take(consumer("ui"), "a1 b1 c1 d1")
		size := len(w.see("a1").Line)
		var pages []string
		r := queue.TakeOverRequest{Now: w.now(), Owner: consumer("ui"), MaxBytes: size + 1}
		for more := true; more; {
			res, err := w.store.TakeOver(w.ctx, r)
			w.ok(err, "take over")
			pages, more = append(pages, ids(res.Deliveries)), res.More
			r.After = res.Deliveries[len(res.Deliveries)-1].Token.Fence
			r.MaxBytes = size // then one at a time
		}
		equal(w, "pages", strings.Join(pages, "; "), "a1 b1; c1; d1")
	}},
	{"does_not_count_as_a_delivery", func(w *world) {
		w.policy.MaxDeliveries = 2
		w.given("a1@A")
		w.take(consumer("ui"), "a1")
		for range 5 {
			w.takeOver(consumer("ui"))
		}
		w.reclaimAfter(leaseTime)
		equal(w, "number", w.take(consumer("ui"), "a1")[0].Number, 2)
	}},
}

func (w *world) takeOver(o queue.Owner) []queue.Delivery {
	w.Helper()
	res, err := w.store.TakeOver(w.ctx, queue.TakeOverRequest{Now: w.now(), Owner: o})
	w.ok(err, "take over")
	equal(w, "damaged or left out", [2]any{len(res.Damaged), res.More}, [2]any{0, false})
	return res.Deliveries
}

func plainDeliveries(ds []queue.Delivery) []queue.Delivery { return each(ds, plainDelivery) }

// Of Revoke: an operator takes from a consumer what it does not get on with (P3, P4).
var revokePromises = []promise{
	{"ends_a_lease_and_says_who_did_it_and_why", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		mark := w.mark()
		res := w.revoke("on holiday", 1)
		want := queue.Revoked{Seq: 1, Reclaimed: queue.Reclaimed{Token: d.Token, Owner: consumer("ui"), Counted: true, Message: d.Message.Summary()}}
		equal(w, "result", res, []queue.Revoked{want})
		w.since(mark, "RECLAIMED a1 unanswered=1")
		r := w.records(queue.TrailQuery{AfterN: mark})[0]
		equal(w, "record", [5]any{r.By, r.Reason, *r.Peer, r.Worker, r.Delivery}, [5]any{"olga", "on holiday", queue.Peer{PID: 5}, "ui", 1})
		w.states("a1 ready")
	}},
	{"is_an_operators_also_where_no_reason_is_given", func(w *world) {
		w.given("a1@A")
		w.take(consumer("ui"), "a1")
		mark := w.mark()
		w.revoke("", 1)
		equal(w, "reason", w.records(queue.TrailQuery{AfterN: mark})[0].Reason, queue.ReclaimRevoked)
	}},
	{"makes_the_late_answer_void", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		w.revoke("stuck", 1)
		mark := w.mark()
		w.refused(w.answer(d, consumer("ui"), queue.Ack), queue.CodeExpired)
		w.since(mark, "REFUSED a1 LEASE_EXPIRED")
		equal(w, "extended", w.extend(consumer("ui"), leaseTime, d)[0].Code, queue.CodeExpired)
		equal(w, "held", ids(w.takeOver(consumer("ui"))), "")
		fresh := w.take(consumer("other"), "a1")[0]
		equal(w, "delivery", [2]any{fresh.Number, fresh.Redelivered}, [2]any{2, true})
		w.refused(w.answer(d, consumer("ui"), queue.Ack), queue.CodeExpired)
		w.ack(consumer("other"), fresh)
	}},
	{"offers_it_to_the_same_owner_no_sooner_than_its_deadline", func(w *world) {
		w.given("a1@A", "b1@B")
		w.take(consumer("ui"), "a1 b1")
		w.pass(leaseTime / 3)
		w.revoke("stuck", 1, 2)
		res := w.claimAll(wants(consumer("ui")))
		equal(w, "given", ids(res.Deliveries[0]), "")
		equal(w, "next", res.Next.Sub(w.now()), leaseTime-leaseTime/3)
		w.take(consumer("other"), "a1 b1") // everybody else may have it at once
		w.revoke("stuck too", 1)
		w.take(consumer("ui"), "a1") // who was asked before is no matter any more
	}},
	{"never_takes_what_a_worker_runs", func(w *world) {
		w.given("a1@A", "b1@B")
		d := w.takeWant(func() queue.Want { ask := wants(worker("w")); ask.Max = 1; return ask }(), "a1")[0]
		w.take(consumer("ui"), "b1")
		mark := w.mark()
		equal(w, "codes", revokeCodes(w.revoke("stuck", 1, 2)), []queue.Code{queue.CodeUsage, ""})
		w.since(mark, "RECLAIMED b1 unanswered=1")
		w.ack(worker("w"), d)
	}},
	{"of_what_nobody_holds_is_not_found", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "s1@S not_before=+1h")
		w.admit("!{}")
		ds := w.take(consumer("ui"), "a1 b1 c1")
		w.ack(consumer("ui"), ds[0])
		w.reject(consumer("ui"), ds[1])
		w.fail(consumer("ui"), ds[2])
		mark := w.mark()
		for _, r := range w.revoke("stuck", 1, 2, 3, 4, 5, 0, 99) {
			equal(w, fmt.Sprint(r.Seq), [2]any{r.Code, r.Reclaimed}, [2]any{queue.CodeNotFound, queue.Reclaimed{}})
		}
		w.since(mark)
		equal(w, "nothing asked for", len(w.revoke("stuck")), 0)
	}},
	{"takes_the_lease_that_is_meant_and_no_other", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D")
		ui := func(most int) queue.Want { ask := wants(consumer("ui")); ask.Max = most; return ask }
		ds := w.takeWant(ui(3), "a1 b1 c1")
		meant := each(ds, func(d queue.Delivery) queue.LeaseRef { return queue.LeaseRef{Seq: d.Token.Seq, Fence: d.Token.Fence} })
		w.ack(consumer("ui"), ds[1])
		w.applied(w.answer(ds[0], consumer("ui"), queue.Release))
		w.applied(w.answer(ds[2], consumer("ui"), queue.Release))
		other := w.takeWant(func() queue.Want { ask := wants(consumer("other")); ask.Max = 2; return ask }(), "d1 a1")[1]
		again := w.takeWant(ui(1), "c1")[0]
		mark := w.mark()
		res := w.revokeOnly("gone", meant...)
		equal(w, "codes", revokeCodes(res), []queue.Code{queue.CodeExpired, queue.CodeNotFound, queue.CodeExpired})
		equal(w, "who has it now", [2]queue.Owner{res[0].Owner, res[2].Owner}, [2]queue.Owner{consumer("other"), consumer("ui")})
		equal(w, "another owner", revokeCodes(w.revokeOnly("gone", queue.LeaseRef{Seq: 1, Owner: "ui"})), []queue.Code{queue.CodeExpired})
		w.since(mark) // nobody has lost anything
		w.states("a1 leased", "b1 done", "c1 leased", "d1 leased")
		equal(w, "those that are meant", revokeCodes(w.revokeOnly("gone",
			queue.LeaseRef{Seq: 1, Owner: "other"}, queue.LeaseRef{Seq: 3, Fence: again.Token.Fence, Owner: "ui"})), []queue.Code{"", ""})
		w.refused(w.answer(other, consumer("other"), queue.Ack), queue.CodeExpired)
		w.refused(w.answer(again, consumer("ui"), queue.Ack), queue.CodeExpired)
	}},
	{"a_worker_keeps_also_the_lease_that_is_meant", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		equal(w, "codes", revokeCodes(w.revokeOnly("stuck",
			queue.LeaseRef{Seq: 1, Fence: d.Token.Fence}, queue.LeaseRef{Seq: 1, Fence: d.Token.Fence + 1})), []queue.Code{queue.CodeUsage, queue.CodeExpired})
		w.ack(worker("w"), d)
	}},
	{"twice_takes_it_once", func(w *world) {
		w.given("a1@A")
		w.take(consumer("ui"), "a1")
		equal(w, "codes", revokeCodes(w.revoke("stuck", 1, 1)), []queue.Code{"", queue.CodeNotFound})
	}},
	{"counts_and_may_have_been_the_last", func(w *world) {
		w.policy.MaxDeliveries = 2
		w.given("a1@A", "a2@A")
		w.take(consumer("ui"), "a1")
		w.reclaimAfter(leaseTime)
		w.take(consumer("ui"), "a1")
		mark := w.mark()
		equal(w, "dead", w.revoke("stuck", 1)[0].DeadCode, queue.CodeDeliveriesExhausted)
		w.since(mark, "RECLAIMED a1 unanswered=2", "DEAD_LETTERED a1 DELIVERIES_EXHAUSTED unanswered=2")
		r := w.records(queue.TrailQuery{AfterN: mark + 1})[0]
		equal(w, "record", [2]any{r.By, r.Reason}, [2]any{"olga", "stuck"})
		equal(w, "letter", w.see("a1").Reason, "stuck")
		w.states("a1 dead", "a2 held")
	}},
	{"puts_back_what_is_leased_behind_it", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A", "b1@B")
		w.takeRun(consumer("ui"), "a1 a2 a3 b1")
		mark := w.mark()
		equal(w, "codes", revokeCodes(w.revoke("stuck", 2, 3)), []queue.Code{"", queue.CodeNotFound})
		w.since(mark, "RECLAIMED a2 unanswered=1", "RELEASED a3")
		w.states("a1 leased", "a2 ready", "a3 ready", "b1 leased")
		w.takeRun(consumer("other"), "") // a1 is still out
	}},
	{"under_skip_lets_the_rest_of_the_key_go_on", func(w *world) {
		w.policy.MaxDeliveries, w.policy.OnDeadLetter = 1, queue.SkipDead
		w.given("a1@A", "a2@A", "a3@A")
		ds := w.takeWant(func() queue.Want { ask := wants(consumer("ui")); ask.PerKey = 2; return ask }(), "a1 a2")
		w.revoke("stuck", 1)
		w.states("a1 dead", "a2 leased", "a3 ready")
		w.ack(consumer("ui"), ds[1])
		w.take(consumer("ui"), "a3")
	}},
	{"works_on_what_has_expired_and_while_claims_are_paused", func(w *world) {
		w.given("a1@A", "b1@B")
		w.take(consumer("ui"), "a1 b1")
		w.ok(w.store.Pause(w.ctx, w.operator("")), "pause")
		w.revoke("stuck", 1)
		w.pass(leaseTime + 1)
		w.revoke("stuck", 2)
		equal(w, "reclaimed", len(w.reclaim()), 0)
		w.ok(w.store.Resume(w.ctx, w.operator("")), "resume")
		w.take(consumer("ui"), "a1 b1") // at once: the deadline is over
	}},
	{"survives_a_crash", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		w.revoke("stuck", 1)
		w.crash()
		equal(w, "held", ids(w.takeOver(consumer("ui"))), "")
		w.refused(w.answer(d, consumer("ui"), queue.Ack), queue.CodeExpired)
		equal(w, "delivery", w.take(consumer("ui"), "a1")[0].Number, 2)
	}},
}

func (w *world) revoke(reason string, seqs ...uint64) []queue.Revoked {
	w.Helper()
	return w.revokeOnly(reason, each(seqs, func(seq uint64) queue.LeaseRef { return queue.LeaseRef{Seq: seq} })...)
}

func (w *world) revokeOnly(reason string, leases ...queue.LeaseRef) []queue.Revoked {
	w.Helper()
	res, err := w.store.Revoke(w.ctx, w.operator(reason), w.policy, leases)
	w.ok(err, "revoke")
	equal(w, "results", len(res), len(leases))
	return each(res, plainRevoked)
}

func plainRevoked(r queue.Revoked) queue.Revoked { r.Error = ""; return r }

func revokeCodes(res []queue.Revoked) []queue.Code {
	return each(res, func(r queue.Revoked) queue.Code { return r.Code })
}

// Of Leases: who holds what.
var leasesPromises = []promise{
	{"says_who_holds_what_since_when_and_until_when", func(w *world) {
		w.given("a1@A", "b1@B route=auto", "c1@C")
		review := wants(consumer("ui"))
		review.Routes, review.Max = queue.RoutesOf(queue.RouteReview), 1
		d := w.takeWant(review, "a1")[0]
		w.pass(time.Second)
		e := w.takeWant(func() queue.Want { ask := wants(worker("w")); ask.Max = 1; return ask }(), "b1")[0]
		d.Message.Line, e.Message.Line = nil, nil
		equal(w, "leases", w.leases(0, 10), []queue.Lease{
			{Token: d.Token, Owner: consumer("ui"), Route: queue.RouteReview, Number: 1, Since: wall(w.now().Add(-time.Second)), Deadline: wall(d.Deadline), Message: d.Message},
			{Token: e.Token, Owner: worker("w"), Route: queue.AutoResolve, Number: 1, Since: wall(w.now()), Deadline: wall(e.Deadline), Message: e.Message},
		})
		w.extend(consumer("ui"), time.Hour, d)
		l := w.leases(0, 1)[0]
		equal(w, "extended", [2]time.Time{l.Since, l.Deadline}, [2]time.Time{wall(w.now()), wall(w.now().Add(time.Hour))})
		w.pass(time.Minute)
		w.crash()
		left := w.leases(0, 10)
		equal(w, "left", len(left), 1)
		equal(w, "runs anew", [3]any{left[0].Token, left[0].Since, left[0].Deadline}, [3]any{d.Token, wall(w.now()), wall(w.now().Add(time.Hour))})
	}},
	{"are_paged_by_seq", func(w *world) {
		var specs []string
		for i := range 9 {
			specs = append(specs, fmt.Sprintf("a%d@A%d priority=%d", i+1, i, 9-i))
		}
		w.given(specs...)
		ds := w.take(consumer("ui"), "a9 a8 a7 a6 a5 a4 a3 a2 a1")
		list := func(after uint64, limit int) []uint64 {
			w.Helper()
			return each(w.leases(after, limit), func(l queue.Lease) uint64 { return l.Token.Seq })
		}
		equal(w, "first", list(0, 4), []uint64{1, 2, 3, 4})
		w.ack(consumer("ui"), ds[4], ds[1]) // 5, 8
		equal(w, "next", list(4, 4), []uint64{6, 7, 9})
		equal(w, "beyond", list(9, 4), nil)
		equal(w, "no limit is none", list(0, 0), nil)
	}},
	{"are_what_is_leased_and_nothing_else", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D")
		ds := w.take(consumer("ui"), "a1 b1 c1 d1")
		w.fail(consumer("ui"), ds[0])
		w.reject(consumer("ui"), ds[1])
		w.revoke("stuck", 3)
		held := w.leases(0, 10)
		equal(w, "held", [2]any{len(held), held[0].Token}, [2]any{1, ds[3].Token})
	}},
}

func (w *world) leases(after uint64, limit int) []queue.Lease {
	w.Helper()
	list, err := w.store.Leases(w.ctx, after, limit)
	w.ok(err, "leases")
	return each(list, plainLease)
}

func plainLease(l queue.Lease) queue.Lease {
	l.Since, l.Deadline = wall(l.Since), wall(l.Deadline)
	return l
}
