package ledger

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPace(t *testing.T) {
	t.Run("Put_alone_seals_and_merges_in_time", func(t *testing.T) {
		// As many keys, in heads, as 50 million keys are: 200 heads of distinct
		// keys, put four times over, so that the top tier is merged again and
		// again.
		s := smallSizes()
		m := newMachine(t, s)
		keys := 200 * s.headKeys
		var put, most int
		for n := 0; n < 4*keys; n += 5 {
			var batch []Entry
			for i := range 5 {
				batch = append(batch, m.next((n+i)%keys, StateOpen))
				put += recordFixed
			}
			m.put(t, batch)
			m.bounded(t)
			most = max(most, len(m.l.segments))
			if len(m.l.jobs) > 0 && m.l.jobs[0].level == sealing && m.l.active.keys > s.headKeys/2 {
				t.Fatalf("the active head has %d of %d keys and the frozen one is not sealed", m.l.active.keys, s.headKeys)
			}
			if n%500 == 0 {
				m.commit(t)
			}
		}
		amplification := float64(m.l.written) / float64(put)
		t.Logf("at most %d segments; each byte put was written %.1f times to blocks", most, amplification)
		if most > 15 {
			t.Errorf("there were %d segments: the pace allows for 15", most)
		}
		// Sealed once, merged on three levels, and on the top level, where all
		// 200 heads are merged with 3×64 new ones, about twice.
		if amplification > 7 {
			t.Errorf("each byte put was written %.1f times", amplification)
		}
		m.compare(t)
	})

	t.Run("without_it_memory_and_segments_are_bounded_all_the_same", func(t *testing.T) {
		s := smallSizes()
		s.pace, s.fanIn, s.topTier = 0, 16, 0 // no merge before the limit is reached
		m := newMachine(t, s)
		most := 0
		for n := range 60 * s.headKeys {
			m.put(t, []Entry{m.next(n, StateOpen)})
			m.bounded(t)
			most = max(most, len(m.l.segments))
			if n%500 == 0 {
				m.commit(t)
			}
		}
		if most < s.maxSegments-1 { // the last one is merged within the Put that seals it
			t.Errorf("there were at most %d segments: the limit of %d was not put to the test", most, s.maxSegments)
		}
		m.compare(t)
	})

	t.Run("a_budget_bounds_a_step", func(t *testing.T) {
		s := smallSizes()
		s.pace = 0
		m := newMachine(t, s)
		const budget = 1000
		busy := 0
		for n := range 100 * s.headKeys {
			m.put(t, []Entry{m.next(n, StateOpen)})
			before := m.l.written
			if m.maintain(t, budget) {
				busy++
			}
			// A step may overshoot by the block it is in.
			if did := m.l.written - before; did > 2*int64(budget+s.block) {
				t.Fatalf("Maintain(%d) wrote %d bytes", budget, did)
			}
		}
		if busy < 100 {
			t.Errorf("only %d calls had something to do", busy)
		}
	})
}

func TestPut(t *testing.T) {
	t.Run("refuses_what_could_not_be_read_back", func(t *testing.T) {
		m := newMachine(t, smallSizes())
		for _, e := range []Entry{
			{Key: numbered(1)},
			{Key: numbered(1), State: StateForgotten + 1},
			{Key: numbered(1), State: StateDone, Outcome: string(make([]byte, MaxOutcome+1))},
		} {
			if err := m.l.Put(m.tx, []Entry{entryOf(2, StateOpen, 1), e}); err == nil {
				t.Errorf("%+v was taken", e)
			}
		}
		m.compare(t) // nothing was put, the good one neither
	})

	t.Run("keeps_the_stored_form_of_the_log", func(t *testing.T) {
		m := newMachine(t, defaultSizes())
		if err := m.l.Put(m.tx, []Entry{{Key: Key{0xaa}, Seq: 1, State: StateOpen, New: true}}); err != nil {
			t.Fatal(err)
		}
		// CRC-32C over the log number, 8 zero bytes, and the record.
		want := "4a7d7002" + "aa" + strings.Repeat("00", 15+16+10+7) + "01" + "81"
		if got := hex.EncodeToString(m.tx.Bucket(bucketLog).Get(make([]byte, 8))); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})

	t.Run("does_not_allocate_per_entry", func(t *testing.T) {
		m := newMachine(t, defaultSizes())
		entries := make([]Entry, 1000)
		n := 0
		perEntry := testing.AllocsPerRun(20, func() {
			for i := range entries {
				n++
				entries[i] = Entry{Key: spread(uint64(n)), State: StateOpen, New: true}
			}
			if err := m.l.Put(m.tx, entries); err != nil {
				t.Fatal(err)
			}
		}) / float64(len(entries))
		if perEntry > 0.5 {
			t.Errorf("%.2f allocations per entry", perEntry)
		}
	})
}

// lets is the rule of retention of these tests: what is done with an even seq
// goes, and so does what is forgotten.
func lets(e Entry) bool {
	return e.State == StateDone && e.Seq%2 == 0 || e.State == StateForgotten
}

func TestKeep(t *testing.T) {
	t.Run("lets_settled_keys_go_and_nothing_else", func(t *testing.T) {
		gone, kept := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			s := smallSizes()
			s.headKeys, s.fanIn, s.topTier = 20, 2, 1
			m := newMachine(t, s)
			defer m.close()
			keep := func(e Entry) bool {
				if e.State == StateOpen || e.State == StateDead {
					rt.Fatalf("keep is asked about %+v", e)
				}
				return !lets(e)
			}
			m.l.SetKeep(keep)
			for range rapid.IntRange(1, 12).Draw(rt, "rounds") {
				m.live(rt, rapid.IntRange(1, 100).Draw(rt, "n"))
				m.maintain(rt, rapid.IntRange(1, 3000).Draw(rt, "budget"))
				switch rapid.SampledFrom([]string{"", "commit", "rollback", "reopen"}).Draw(rt, "then") {
				case "commit":
					m.commit(rt)
				case "rollback":
					m.rollback(rt)
					if err := m.l.Reload(m.tx); err != nil {
						rt.Fatal(err)
					}
				case "reopen":
					m.reopen(rt)
					m.l.SetKeep(keep)
				}
			}
			for m.maintain(rt, 1000) {
			}
			g, k := m.compareKept(rt)
			gone, kept = gone+g, kept+k
		})
		if gone < 100 || kept < 100 {
			t.Errorf("%d keys went and %d stayed: too few to mean anything", gone, kept)
		}
	})

	t.Run("a_key_let_go_does_not_come_back_as_what_it_was_before", func(t *testing.T) {
		s := smallSizes()
		s.pace, s.fanIn = 0, 2
		m := newMachine(t, s)
		m.l.SetKeep(func(e Entry) bool { return e.State != StateDone })
		k := numbered(0)
		m.put(t, []Entry{m.next(0, StateOpen)})
		m.filler(t, 1000, 2) // the open entry is in an old segment of its own tier
		m.put(t, []Entry{m.next(0, StateDone)})
		m.filler(t, 2000, 2)
		for i := 3000; i < 12000; i += 100 {
			m.filler(t, i, 1)
			e, ok, err := m.l.Get(m.tx, k)
			if err != nil || ok && e.State == StateOpen {
				t.Fatalf("Get = %+v, %v, %v", e, ok, err)
			}
			if !ok {
				return
			}
		}
		t.Error("the key was never let go")
	})
}

func TestLive(t *testing.T) {
	t.Run("counts_a_key_once_though_forget_and_retention_both_take_it", func(t *testing.T) {
		s := smallSizes()
		s.pace, s.fanIn = 0, 2
		m := newMachine(t, s)
		m.l.SetKeep(func(e Entry) bool { return e.State != StateDiscarded })
		m.put(t, []Entry{m.next(0, StateDiscarded)})
		for n := 1; len(m.l.jobs) == 0 || m.l.jobs[0].level != 0; n++ {
			m.put(t, []Entry{m.next(n, StateOpen)})
			for len(m.l.jobs) > 0 && m.l.jobs[0].level == sealing { // and no step of a merge
				if _, err := m.l.step(m.tx, m.l.jobs[0], 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		m.put(t, []Entry{m.next(0, StateForgotten)}) // while the merge waits
		for m.maintain(t, 1000) {
		}
		m.compare(t)
	})
}

func TestSweep(t *testing.T) {
	for _, heads := range []int{0, 1, 3, 5, 9} {
		t.Run(fmt.Sprintf("lets_go_of_what_%d_heads_and_a_bit_hold", heads), func(t *testing.T) {
			m := newMachine(t, smallSizes())
			n := heads*m.sizes.headKeys + 7
			for i := range n {
				m.put(t, []Entry{m.next(i, StateDone)})
			}
			for m.maintain(t, 1000) {
			}
			m.put(t, []Entry{m.next(n, StateOpen)})
			m.l.SetKeep(func(Entry) bool { return false })
			for sweeps := 0; m.l.Live() > 1; sweeps++ {
				if sweeps > 4 { // one a tier, and one for the head
					t.Fatalf("%d of %d keys are still there", m.l.Live(), n)
				}
				if err := m.l.Sweep(m.tx); err != nil {
					t.Fatal(err)
				}
				for m.maintain(t, 300) {
				}
			}
			e, ok, err := m.l.Get(m.tx, numbered(n))
			if err != nil || !ok || e.State != StateOpen {
				t.Fatalf("the open entry: %+v, %v, %v", e, ok, err)
			}
			if err := m.l.Check(m.tx); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// filler puts heads full of other keys, starting with key n, and maintains.
func (m *machine) filler(t fataler, n, heads int) {
	for i := range heads * m.sizes.headKeys {
		m.put(t, []Entry{m.next(n+i, StateOpen)})
	}
	for m.maintain(t, 1000) {
	}
}

// live leads n keys one stage further in their lives, by what Get says of them.
func (m *machine) live(t fataler, n int) {
	t.Helper()
	for range n {
		m.seq++
		i := int(m.seq*2654435761>>7) % 300
		e, ok, err := m.l.Get(m.tx, numbered(i))
		if err != nil {
			t.Fatal(err)
		}
		state := StateOpen
		if ok && e.State == StateOpen {
			state = []State{StateDone, StateDone, StateDead, StateDiscarded}[m.seq>>3%4]
		} else if ok && e.State == StateDead {
			state = StateDiscarded
		} else if ok && e.State == StateDiscarded {
			state = StateForgotten
		} else if ok && e.State == StateDone {
			continue
		}
		next := entryOf(i, state, m.seq)
		next.New = !ok || e.State == StateForgotten
		m.put(t, []Entry{next})
	}
}

// compareKept compares when retention has been at work: a key that it may let
// go can be absent.
func (m *machine) compareKept(t fataler) (gone, kept int) {
	t.Helper()
	live := int64(0)
	for k, want := range m.model {
		got, ok, err := m.l.Get(m.tx, k)
		switch {
		case err != nil:
			t.Fatal(err)
		case !ok && lets(want):
			gone++
			continue
		case !ok || got != want:
			t.Fatalf("Get(%x) = %+v, %v, want %+v", k, got, ok, want)
		}
		kept++
		if got.State != StateForgotten {
			live++
		}
	}
	if m.l.Live() != live {
		t.Fatalf("Live() = %d, want %d", m.l.Live(), live)
	}
	if err := m.l.Check(m.tx); err != nil {
		t.Fatal(err)
	}
	return gone, kept
}
