package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"breakwater/queue"
)

// Of what a store says is at risk: how much money waits, for how long, and where.
var riskPromises = []promise{
	{"amounts_are_summed_up_without_their_signs", func(w *world) {
		w.given("a1@A amount=-10.50", "a2@A amount=10.50", "b1@B amount=0.07 currency=EUR", "b2@B amount=-0.00 currency=EUR")
		equal(w, "at risk", riskText(w.status()), "none 21.00 0.00 0.00; EUR 0.07 0.00 0.00")
	}},
	{"amounts_are_as_exact_as_the_currency", func(w *world) {
		w.given("a1@A amount=7 currency=JPY", "a2@A amount=1.2340 currency=CLF", "a3@A amount=1.5 currency=KWD", "a4@A amount=7.00 currency=JPY",
			"a5@A amount=0.10", "a6@A amount=0.20", "a7@A amount=1E+3 currency=USD", "a8@A amount=5e-1 currency=USD")
		equal(w, "at risk", riskText(w.status()),
			"none 0.30 0.00 0.00; CLF 1.2340 0.0000 0.0000; JPY 14 0 0; KWD 1.500 0.000 0.000; USD 1000.50 0.00 0.00")
	}},
	{"amounts_of_any_size_are_summed_up", func(w *world) {
		huge := strings.Repeat("9", 38) + "e38"
		w.given("a1@A amount="+huge, "a2@A amount="+huge, "a3@A amount=0.01", "a4@A amount=0.02 currency=EUR",
			"b1@B amount=99999999999999999.99", "b2@B amount=99999999999999999.99", "b3@B amount=-1.00")
		before := riskText(w.status())
		equal(w, "at risk", before, "none "+sumText(huge, huge, "0.01", "99999999999999999.99", "99999999999999999.99", "1.00")+
			" 0.00 0.00; EUR 0.02 0.00 0.00")
		w.reopen()
		equal(w, "after a restart", riskText(w.status()), before)
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a2 a3 a4 b1 b2 b3")...)
		equal(w, "when all is done", riskText(w.status()), "")
	}},
	{"amounts_follow_their_messages", func(w *world) {
		risk := func(want string) { w.Helper(); equal(w, "at risk", riskText(w.status()), want) }
		w.given("a1@A amount=1.00", "a2@A amount=2.00", "b1@B amount=4.00", "s1@A amount=8.00 not_before=+1h")
		risk("none 15.00 0.00 0.00")
		ds := w.take(worker("w"), "a1 b1")
		risk("none 15.00 0.00 0.00")
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A"}))
		risk("none 15.00 2.00 0.00") // a1 is leased, s1 is not due
		w.fail(worker("w"), ds[0])
		risk("none 15.00 3.00 0.00")
		w.done(w.store.ReleaseKeys(w.ctx, w.operator(""), []string{"A"}))
		risk("none 15.00 3.00 0.00") // the retry
		w.reject(worker("w"), ds[1])
		risk("none 11.00 3.00 4.00")
		w.pass(time.Hour)
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a2 s1")...)
		risk("none 0.00 0.00 4.00")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{3}))
		risk("none 4.00 0.00 0.00")
		w.reject(worker("w"), w.take(worker("w"), "b1")[0])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{3}))
		risk("")
	}},
	{"amounts_survive_a_crash", func(w *world) {
		w.given("a1@A amount=1.00", "a2@A amount=2.00", "b1@B amount=4.00", "b2@B amount=8.00 currency=EUR", "s1@C amount=16.00 not_before=+1h", "d1@D amount=32.00")
		ds := w.take(consumer("ui"), "a1 b1 d1")
		w.reject(consumer("ui"), ds[1])
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A", "X"}))
		const want = "none 51.00 2.00 4.00; EUR 8.00 8.00 0.00"
		equal(w, "before", riskText(w.status()), want)
		w.crash()
		equal(w, "after", riskText(w.status()), want)
	}},
	{"a_dead_letter_counts_with_what_can_be_read_of_its_amount", func(w *world) {
		w.given("a1@A amount=1.00 currency=EUR")
		w.admit("a1@A amount=2.00 currency=EUR", "!{}", `!{"variance_amount":"1.234"}`, `!{"variance_amount":"3.50","currency":"USD"}`, "![]")
		st := w.status()
		equal(w, "at risk", riskText(st), "EUR 1.00 0.00 2.00; USD 0.00 0.00 3.50")
		equal(w, "in number only", [2]int64{st.Dead, st.DeadUnvalued}, [2]int64{5, 3})
		w.crash()
		equal(w, "after a crash", [2]int64{w.status().Dead, w.status().DeadUnvalued}, [2]int64{5, 3})
		w.done(w.store.Discard(w.ctx, w.operator("seen"), []uint64{2, 3, 4, 5}))
		st = w.status()
		equal(w, "after a discard", riskText(st), "EUR 1.00 0.00 0.00")
		equal(w, "in number only", [2]int64{st.Dead, st.DeadUnvalued}, [2]int64{1, 1})
	}},
	{"dead_letters_are_counted_by_code", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		w.admit("!{}", "a1@A amount=2.00")
		w.policy.MaxAttempts = 1
		ds := w.take(worker("w"), "a1 b1 c1")
		w.reject(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		w.fail(worker("w"), ds[2])
		want := map[queue.Code]int64{queue.CodeRejected: 2, queue.CodeAttemptsExhausted: 1, queue.CodePoison: 1, queue.CodeConflict: 1}
		equal(w, "by code", w.status().DeadByCode, want)
		w.reopen()
		equal(w, "after a restart", w.status().DeadByCode, want)
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1, 2, 3}))
		w.done(w.store.Discard(w.ctx, w.operator("seen"), []uint64{4, 5}))
		equal(w, "none", len(w.status().DeadByCode), 0)
	}},
	{"blocked_and_held_keys_are_counted_with_messages_or_without", func(w *world) {
		keys := func(want [3]int64) {
			w.Helper()
			st := w.status()
			equal(w, "held, blocked, by operators", [3]int64{st.HeldKeys, st.BlockedKeys, st.OperatorHolds}, want)
		}
		w.given("a1@A", "b1@B", "b2@B", "c1@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		w.reject(worker("w"), ds[0])
		keys([3]int64{0, 1, 0})
		w.reject(worker("w"), ds[1])
		keys([3]int64{1, 2, 0})
		w.fail(worker("w"), ds[2])
		keys([3]int64{2, 2, 0})
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"B", "X"}))
		keys([3]int64{2, 2, 2})
		w.crash()
		keys([3]int64{2, 2, 2})
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1, 2}))
		keys([3]int64{2, 0, 2})
		w.done(w.store.ReleaseKeys(w.ctx, w.operator(""), []string{"B", "X"}))
		keys([3]int64{1, 0, 0})
	}},
	{"ages_are_told_in_four_steps", func(w *world) {
		w.given("a1@A")
		for _, step := range []struct {
			pass time.Duration
			want string
		}{
			{24*time.Hour - time.Minute, "1 0 0 0"}, {time.Minute, "0 1 0 0"}, {48*time.Hour - time.Minute, "0 1 0 0"}, {time.Minute, "0 0 1 0"},
			{96*time.Hour - time.Minute, "0 0 1 0"}, {time.Minute, "0 0 0 1"},
		} {
			w.pass(step.pass)
			equal(w, "ages", agesText(w.status().OpenAges), step.want)
		}
		w.given("a2@A", "s1@S not_before=+1h")
		equal(w, "ages", agesText(w.status().OpenAges), "2 0 0 1")
		w.clock.Step(-30 * 24 * time.Hour)
		equal(w, "what is accepted later than now is young", agesText(w.status().OpenAges), "3 0 0 0")
	}},
	{"ages_are_judged_in_whole_minutes", func(w *world) {
		w.pass(50 * time.Second)
		w.given("a1@A")
		w.pass(24*time.Hour - 50*time.Second)
		equal(w, "ten seconds early", agesText(w.status().OpenAges), "0 1 0 0")
	}},
	{"nothing_makes_a_message_younger", func(w *world) {
		ages := func(open, dead string) {
			w.Helper()
			st := w.status()
			equal(w, "ages", [2]string{agesText(st.OpenAges), agesText(st.DeadAges)}, [2]string{open, dead})
		}
		good := w.lines("q1@Q")[0]
		good.Fault = &queue.Fault{Field: "currency", Reason: "is unknown yet"}
		w.given("a1@A", "b1@B")
		w.admitLines([]queue.Submission{good})
		w.pass(2 * 24 * time.Hour)
		ages("0 2 0 0", "0 1 0 0")
		ds := w.take(worker("w"), "a1 b1")
		w.fail(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		ages("0 1 0 0", "0 2 0 0")
		w.pass(2 * 24 * time.Hour)
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{2, 3}))
		ages("0 0 3 0", "0 0 0 0")
		w.crash()
		ages("0 0 3 0", "0 0 0 0")
		w.ack(worker("w"), w.take(worker("w"), "b1 q1 a1")...)
		ages("0 0 0 0", "0 0 0 0")
		first := w.see("q1").AcceptedAt
		equal(w, "first", w.now().Sub(first), 4*24*time.Hour)
	}},
}

// riskText spells what is at risk: currency, open, held, dead.
func riskText(st queue.StoreStatus) string {
	var parts []string
	for _, r := range st.AtRisk {
		parts = append(parts, fmt.Sprintf("%s %s %s %s", r.Currency, r.Open, r.Held, r.Dead))
	}
	return strings.Join(parts, "; ")
}

func agesText(a queue.Ages) string {
	return fmt.Sprint(a.Under24h, a.To3d, a.To7d, a.Over7d)
}

// sumText adds decimals up, with two fraction digits.
func sumText(decimals ...string) string {
	var sum big.Rat
	for _, d := range decimals {
		one, _ := new(big.Rat).SetString(d)
		sum.Add(&sum, one)
	}
	return sum.FloatString(2) // exact: it has no more
}

// reckon counts from lists what a status says from counters.
func reckon(open, dead []queue.Exception, now time.Time) (st queue.StoreStatus) {
	sums := map[string]*[3]big.Rat{}
	add := func(x *queue.Exception, into ...int) bool {
		if _, err := queue.CheckAmount(x.Amount, x.Currency); err != nil {
			return false
		}
		amount, _ := new(big.Rat).SetString(x.Amount)
		if amount.Abs(amount); sums[x.Currency] == nil && amount.Sign() != 0 {
			sums[x.Currency] = new([3]big.Rat)
		}
		for _, i := range into {
			if amount.Sign() != 0 {
				sums[x.Currency][i].Add(&sums[x.Currency][i], amount)
			}
		}
		return true
	}
	for i := range open {
		x := &open[i]
		if add(x, 0); x.State == queue.Held {
			add(x, 1)
		}
		st.OpenAges.Count(1, queue.Minute(x.AcceptedAt), now)
	}
	for i := range dead {
		x := &dead[i]
		if !add(x, 2) {
			st.DeadUnvalued++
		}
		came := x.AcceptedAt
		if came.IsZero() { // it never was accepted
			came = x.DeadAt
		}
		st.DeadAges.Count(1, queue.Minute(came), now)
		if st.DeadByCode == nil {
			st.DeadByCode = map[queue.Code]int64{}
		}
		st.DeadByCode[x.Code]++
	}
	for _, code := range slices.Sorted(maps.Keys(sums)) {
		minor, _ := queue.MinorUnits(code)
		s := sums[code]
		st.AtRisk = append(st.AtRisk, queue.AtRisk{
			Currency: cmp.Or(code, queue.NoCurrency), Open: s[0].FloatString(minor), Held: s[1].FloatString(minor), Dead: s[2].FloatString(minor),
		})
	}
	return st
}

// reckoned is the part of a status that reckon counts.
func reckoned(st queue.StoreStatus) queue.StoreStatus {
	return queue.StoreStatus{
		AtRisk: st.AtRisk, DeadUnvalued: st.DeadUnvalued, DeadByCode: st.DeadByCode, OpenAges: st.OpenAges, DeadAges: st.DeadAges,
	}
}
