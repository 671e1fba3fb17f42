package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"breakwater/queue"
)

// auditTables compares the tables with those that a load of the file builds now, and with
// themselves; it returns what differs. It looks at all that decides who gets what, not
// at turns, which a load gives anew, nor at how far the walk has come.
func (s *Store) auditTables() (wrong []string, err error) {
	err = s.do(context.Background(), &operation{read: true, apply: func(x *txn) error {
		wrong = x.t.inconsistent()
		fresh, err := load(x.tx, s.secret, &s.options, nil)
		if err != nil {
			return fmt.Errorf("a fresh load: %w", err)
		}
		was, is := fresh.logical(), x.t.logical()
		for _, name := range slices.Sorted(maps.Keys(was)) {
			if is[name] != was[name] {
				wrong = append(wrong, fmt.Sprintf("%s is\n\t%s, in the file\n\t%s", name, is[name], was[name]))
			}
			delete(is, name)
		}
		for _, name := range slices.Sorted(maps.Keys(is)) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, and not in the file", name, is[name]))
		}
		return nil
	}})
	return wrong, err
}

// logical spells what tables say, by name.
func (t *tables) logical() map[string]string {
	depth := t.depth
	depth.worth, depth.heldWorth = depth.worth.present(), depth.heldWorth.present()
	out := map[string]string{
		"counters": fmt.Sprintf("%+v", t.count),
		"depths":   fmt.Sprintf("%+v", depth),
		"the rest": fmt.Sprint(t.scheduled, stamp(t.nextDue), t.dead, t.quarantined, t.ledger.Live(), t.letters),
		"at risk":  fmt.Sprint(atRisk(t.depth.worth, t.scheduledWorth, t.depth.heldWorth, t.deadWorth), t.unvalued, t.byCode),
		"ages":     fmt.Sprint(t.openAges, t.deadAges),
		"holds":    fmt.Sprint(t.holds),
	}
	if t.pause != nil {
		out["pause"] = fmt.Sprintf("%+v", *t.pause)
	}
	for seq, f := range t.flights {
		text := fmt.Sprint(f.ref, f.deliveries, f.failed, f.unanswered)
		if !f.waitUntil.IsZero() {
			text += fmt.Sprint(stamp(f.waitUntil), f.waitWall)
		}
		if f.leased() {
			text += fmt.Sprint(f.owner, f.fence, f.msg)
		}
		if f.owner.Kind == queue.Consumer { // a worker's is renewed in memory only
			text += fmt.Sprint(stamp(f.deadline), f.length)
		}
		out[fmt.Sprintf("flight %d", seq)] = text
	}
	for k := range t.keys.all() {
		blockers := slices.Sorted(slices.Values(k.blockers))
		text := fmt.Sprint(k.slot, k.open, k.leased, k.parked, k.lastParked, k.opHold, blockers)
		if k.wait != nil {
			text += fmt.Sprint(k.wait.seq, stamp(k.wait.until), k.wait.wall)
		}
		out[fmt.Sprintf("key %x", k.hash)] = text + fmt.Sprint(k.state(), k.worth.amounts())
	}
	return out
}

// present are the sums of which there is something.
func (s sums) present() (some sums) {
	for _, one := range s {
		if one.lo != 0 || one.hi != 0 || one.wide != nil && one.wide.Sign() != 0 {
			some = append(some, one)
		}
	}
	slices.SortFunc(some, func(a, b sum) int { return bytes.Compare(a.currency[:], b.currency[:]) })
	return some
}

func stamp(m moment) int64 {
	if m.IsZero() {
		return 0
	}
	return m.UnixMicro()
}

// inconsistent says where tables contradict themselves.
func (t *tables) inconsistent() (wrong []string) {
	find := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	windowed, leased := 0, map[*key]int32{}
	for seq, f := range t.flights {
		if f.seq != seq || f.key == nil || t.keys.get(f.key.hash) != f.key {
			find("flight %d is of a key that is not there", seq)
		}
		if f.leased() {
			leased[f.key]++
		}
	}
	number, filed := 0, 0
	for k := range t.keys.all() {
		h := k.hash
		if number++; k.list != nil {
			filed++
		}
		windowed += len(k.window)
		if !slices.IsSortedFunc(k.window, func(a, b messageRef) int { return a.place.Compare(b.place) }) {
			find("key %x: its window is not in order: %v", h, k.window)
		}
		at := int32(len(k.window)) + k.parked + k.leased
		if at > k.open || t.walkedAll && at != k.open {
			find("key %x: %d are open, %d are at hand, %d parked, %d leased", h, k.open, len(k.window), k.parked, k.leased)
		}
		if k.leased != leased[k] {
			find("key %x: %d are leased, it counts %d", h, leased[k], k.leased)
		}
		if filed := k.list != nil; filed != (k.movable() && len(k.window) > 0) {
			find("key %x: filed is %v, with %d at hand, movable %v", h, filed, len(k.window), k.movable())
		}
		if k.list != nil && t.heads[k.class.route][k.heap-1] != (headAt{place: k.window[0].place, key: k}) {
			find("key %x: the heap has it under another place than %s", h, k.window[0].place)
		}
		if (k.leased > 0) != (k.out != nil) {
			find("key %x: %d are leased, and the purse of them is %v", h, k.leased, k.out)
		}
		if k.idle() {
			find("key %x: nothing is left to know of it", h)
		}
	}
	if number != t.keys.number || filed != len(t.heads[0])+len(t.heads[1]) {
		find("%d keys, it counts %d; %d are filed, the heaps have %d and %d", number, t.keys.number, filed, len(t.heads[0]), len(t.heads[1]))
	}
	wrong = append(wrong, t.wrongStates()...)
	if windowed != t.windowed {
		find("the windows have %d, it counts %d", windowed, t.windowed)
	}
	return wrong
}

// wrongStates says which rows count other states than their keys have.
func (t *tables) wrongStates() (wrong []string) {
	for row := range t.keys.rows {
		var counted [len(t.keys.states)]int32
		for _, k := range t.keys.rows[row] {
			counted[k.state()]++
		}
		for state := range counted {
			if n := t.keys.states[state][row]; state != 0 && n != counted[state] {
				wrong = append(wrong, fmt.Sprintf("row %d counts %d keys that are %s, it has %d", row, n, queue.KeyState(state), counted[state]))
			}
		}
	}
	return wrong
}

// deadlines are the times that the file does not have, or not exactly.
func (s *Store) deadlines() (all map[uint64][2]time.Time, err error) {
	err = s.do(context.Background(), &operation{read: true, apply: func(x *txn) error {
		all = map[uint64][2]time.Time{}
		for seq, f := range x.t.flights {
			all[seq] = [2]time.Time{f.deadline, f.waitUntil}
		}
		return nil
	}})
	return all, err
}
