package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"breakwater/queue"
)

// Of the trail: every change leaves its record, in the transaction that made it,
// in a chain that anybody can check (P10).
var trailPromises = []promise{
	{"can_be_asked_for_a_part", func(w *world) {
		w.given("a1@A", "b1@B trace=shared", "a2@A trace=shared")
		w.admit("a1@A", "a1@A amount=1")
		w.pass(time.Minute)
		middle := w.now()
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a2 b1")...)
		w.pass(time.Minute)
		w.ok(w.store.Pause(w.ctx, w.operator("")), "pause")
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A", "B"}))
		all := w.records(queue.TrailQuery{})
		for name, q := range map[string]queue.TrailQuery{
			"everything":            {},
			"after a record":        {AfterN: 4},
			"of a message":          {Seq: 1}, // with the conflict and the duplicate that name it
			"of a trace":            {TraceID: "shared"},
			"of a key":              {PartitionKey: "A"},
			"of an event":           {Event: queue.EventDecided},
			"of a rare event":       {Event: queue.EventPaused},
			"of an idempotency key": {IdempotencyKey: "a1"},
			"of no such key":        {IdempotencyKey: "zz"},
			"of a key's events":     {PartitionKey: "A", Event: queue.EventKeyHeld},
			"since":                 {Since: middle},
			"until":                 {Until: middle},
			"between":               {Since: middle, Until: middle.Add(time.Second)},
			"all at once":           {AfterN: 3, Seq: 3, TraceID: "shared", PartitionKey: "A", Event: queue.EventDispatched, Since: middle, Until: middle.Add(1)},
			"nothing":               {Seq: 99},
			"after the last":        {AfterN: uint64(len(all))},
			"another message":       {Seq: 2, Event: queue.EventAccepted},
		} {
			var want []queue.Record
			for i := range all {
				if q.Matches(&all[i]) {
					want = append(want, all[i])
				}
			}
			equal(w, name, w.records(q), want)
		}
		equal(w, "records of the first", len(w.records(queue.TrailQuery{Seq: 1})), 5)
		equal(w, "records of the key", len(w.records(queue.TrailQuery{PartitionKey: "A"})), 8)
		equal(w, "records of the idempotency key", len(w.records(queue.TrailQuery{IdempotencyKey: "a1"})), 2)
	}},
	{"ends_when_the_reader_has_enough", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		n := 0
		w.ok(w.store.Trail(w.ctx, queue.TrailQuery{}, func(queue.Record) bool { n++; return n < 2 }), "trail")
		equal(w, "records", n, 2)
	}},
	{"can_be_read_while_the_store_is_at_work", func(w *world) {
		w.given("a1@A", "b1@B")
		n := 0
		w.ok(w.store.Trail(w.ctx, queue.TrailQuery{}, func(queue.Record) bool {
			n++
			w.given(fmt.Sprintf("x%d@X", n))
			return n < 3
		}), "trail")
		equal(w, "records", n, 3)
	}},
	{"is_numbered_across_restarts", func(w *world) {
		w.given("a1@A")
		w.crash()
		w.given("b1@B")
		w.reopen()
		for i, r := range w.records(queue.TrailQuery{}) {
			equal(w, "n", r.N, uint64(i+1))
		}
		equal(w, "records", w.status().Records, 5)
	}},
	{"verifies", func(w *world) {
		w.given("a1@A", "b1@B")
		w.admit("!{}", "a1@A amount=1")
		w.ack(worker("w"), w.take(worker("w"), "a1 b1")[0])
		w.crash()
		steps := int64(0)
		v, err := w.store.Verify(w.ctx, queue.VerifyOptions{Progress: func(done, total int64) {
			if done < steps || done > total {
				w.Errorf("progress %d of %d after %d", done, total, steps)
			}
			steps = done
		}})
		w.ok(err, "verify")
		st := w.status()
		equal(w, "findings", len(v.Findings), 0)
		equal(w, "head", v.Head, st.Head)
		equal(w, "counts", [2]uint64{v.Blocks, v.Records}, [2]uint64{st.Head.Block, st.Records})
		events := map[queue.Event]uint64{}
		for _, r := range w.records(queue.TrailQuery{}) {
			events[r.Event]++
		}
		equal(w, "events", v.Events, events)
		equal(w, "no witness was asked for", len(v.Verdicts), 0)
		equal(w, "origin", v.Origin, st.Origin)
		equal(w, "first and last", [2]uint64{v.First.N, v.Last.N}, [2]uint64{1, st.Records})
		equal(w, "balance", v.Balance, queue.Balance{Accepted: 2, Decided: 1, Open: 1, Quarantined: 2, QuarantinedDead: 2, Deliveries: 2})
	}},
	{"holds_every_head_that_it_ever_had", func(w *world) {
		heads := []queue.Head{w.head()}
		for i := range 5 {
			heads = append(heads, w.admitLines(w.lines(fmt.Sprintf("a%d@A", i))).Head)
		}
		w.crash()
		for _, h := range heads {
			v, err := w.store.Verify(w.ctx, queue.VerifyOptions{Witnesses: []queue.Witness{{Head: h}}})
			w.ok(err, "verify")
			equal(w, "verdict on "+h.String(), [2]any{v.Verdicts[0], len(v.Findings)}, [2]any{queue.WitnessFound, 0})
		}
	}},
	{"does_not_hold_a_head_that_it_never_had", func(w *world) {
		w.given("a1@A")
		head, n := w.head(), w.status().Records
		other, ahead := head, head
		other.Hash[0] ^= 1
		ahead.Block += 100
		v, err := w.store.Verify(w.ctx, queue.VerifyOptions{Witnesses: []queue.Witness{
			{Head: other}, {Head: ahead}, {Head: head, N: n + 1}, {Head: head, N: n},
		}})
		w.ok(err, "verify")
		equal(w, "verdicts", v.Verdicts, []queue.Verdict{
			queue.WitnessDiffers, queue.WitnessCut, queue.WitnessDiffers, queue.WitnessFound,
		})
		equal(w, "findings", len(v.Findings), 0)
	}},
	{"has_an_origin_that_no_restart_changes", func(w *world) {
		origin := w.status().Origin
		if !strings.HasPrefix(origin, "breakwater/") || len(origin) != len("breakwater/")+32 {
			w.Fatalf("origin %q", origin)
		}
		w.reopen()
		equal(w, "origin after a stop", w.status().Origin, origin)
		w.crash()
		equal(w, "origin after a crash", w.status().Origin, origin)
	}},
	{"is_followed_as_far_as_was_asked", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		v, err := w.store.Verify(w.ctx, queue.VerifyOptions{MaxOpen: 2, Buckets: true})
		w.ok(err, "verify")
		equal(w, "the chain is proven", v.Records, w.status().Records)
		equal(w, "from where on it was not followed", v.Untraced, 4)
		equal(w, "findings", len(v.Findings), 0)
	}},
	{"is_told_to_the_observer_as_it_is_written", func(w *world) {
		w.given("a1@A", "b1@B")
		w.ack(worker("w"), w.take(worker("w"), "a1 b1")...)
		w.crash()
		w.admit("a1@A", "c1@C")
		var want strings.Builder
		for _, r := range w.records(queue.TrailQuery{}) {
			want.Write(r.AppendNDJSON(nil))
		}
		var got strings.Builder
		n := uint64(1)
		for _, c := range w.commits {
			equal(w, "first of the commit", c.firstN, n)
			equal(w, "lines", strings.Count(c.text, "\n"), c.count)
			n += uint64(c.count)
			got.WriteString(c.text)
		}
		equal(w, "text", got.String(), want.String())
		equal(w, "head", w.commits[len(w.commits)-1].head, w.head())
	}},
	{"is_not_told_of_calls_that_change_nothing", func(w *world) {
		w.given("a1@A")
		before := len(w.commits)
		w.take(worker("w"), "a1")
		w.take(worker("w"), "")
		w.reclaim()
		w.ok(w.store.Probe(w.ctx), "probe")
		w.settle()
		equal(w, "commits", len(w.commits)-before, 1)
	}},
	{"of_a_large_commit_is_cut_into_blocks_that_chain", func(w *world) {
		var specs []string
		for i := range 300 {
			specs = append(specs, fmt.Sprintf("k%d@K%d", i, i%7))
		}
		before := w.head().Block
		w.given(specs...)
		if blocks := w.head().Block - before; blocks < 2 {
			w.Fatalf("300 records make %d blocks", blocks)
		}
		w.crash()
		equal(w, "records", len(w.records(queue.TrailQuery{Event: queue.EventAccepted})), 300)
	}},
	{"ends_for_a_caller_that_has_gone", func(w *world) {
		w.given("a1@A")
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		err := w.store.Trail(ctx, queue.TrailQuery{}, func(queue.Record) bool { return true })
		if !errors.Is(err, context.Canceled) {
			w.Fatalf("got %v", err)
		}
	}},
}
