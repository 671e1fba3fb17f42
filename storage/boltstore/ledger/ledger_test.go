package ledger

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// newDB returns an empty bbolt file with a ledger in it. Syncs are left out:
// these tests are about what a transaction holds, not about the disk.
func newDB(t testing.TB) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(filepath.Join(t.TempDir(), "ledger.db"), 0o600, &bolt.Options{
		NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Update(Init); err != nil {
		t.Fatal(err)
	}
	return db
}

// numbered returns the key of a test's n-th idempotency key.
func numbered(n int) Key { return KeyOf([32]byte{1}, fmt.Sprint("key-", n)) }

// entryOf returns an entry of key n, told apart from others of it by seq.
func entryOf(n int, state State, seq uint64) Entry {
	e := Entry{Key: numbered(n), Seq: seq, State: state, Members: Digests{uint16(n), 2, 3, 4, uint16(seq)}}
	e.Fingerprint[0] = byte(seq)
	if state == StateDone || state == StateDiscarded {
		e.SettledAt, e.Epoch = int64(seq)*1000, uint32(seq/7)
		e.Outcome = "APPROVED_BY_SOMEONE"[:seq%20]
	}
	return e
}

// machine drives a ledger and a plain map with the same operations.
type machine struct {
	db        *bolt.DB
	sizes     sizes
	tx        *bolt.Tx
	l         *Ledger
	seq       uint64
	model     map[Key]Entry
	committed map[Key]Entry
}

func newMachine(t testing.TB, s sizes) *machine {
	m := &machine{db: newDB(t), sizes: s, model: map[Key]Entry{}, committed: map[Key]Entry{}}
	m.begin(t)
	l, err := openSized(m.tx, s)
	if err != nil {
		t.Fatal(err)
	}
	m.l = l
	t.Cleanup(m.close)
	return m
}

// close gives everything back; a second time does nothing.
func (m *machine) close() {
	m.tx.Rollback()
	m.db.Close()
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func (m *machine) begin(t fataler) {
	t.Helper()
	tx, err := m.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	m.tx = tx
}

func (m *machine) put(t fataler, entries []Entry) {
	t.Helper()
	if err := m.l.Put(m.tx, entries); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		e.New = false
		m.model[e.Key] = e
	}
}

// next makes a plausible next entry of key n.
func (m *machine) next(n int, state State) Entry {
	m.seq++
	was, ok := m.model[numbered(n)]
	e := entryOf(n, state, m.seq)
	e.New = state != StateForgotten && (!ok || was.State == StateForgotten)
	if state == StateForgotten && (!ok || was.State == StateForgotten) {
		e = entryOf(n, StateOpen, m.seq)
		e.New = true
	}
	return e
}

func (m *machine) commit(t fataler) {
	t.Helper()
	if err := m.tx.Commit(); err != nil {
		t.Fatal(err)
	}
	m.committed = maps.Clone(m.model)
	m.begin(t)
}

func (m *machine) rollback(t fataler) {
	t.Helper()
	if err := m.tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	m.model = maps.Clone(m.committed)
	m.begin(t)
}

// reopen drops the ledger value, as a crash would.
func (m *machine) reopen(t fataler) {
	t.Helper()
	l, err := openSized(m.tx, m.sizes)
	if err != nil {
		t.Fatal(err)
	}
	m.l = l
}

func (m *machine) maintain(t fataler, budget int) bool {
	t.Helper()
	busy, err := m.l.Maintain(m.tx, budget)
	if err != nil {
		t.Fatal(err)
	}
	return busy
}

// get compares one key.
func (m *machine) get(t fataler, k Key) {
	t.Helper()
	got, ok, err := m.l.Get(m.tx, k)
	if err != nil {
		t.Fatal(err)
	}
	want, wanted := m.model[k]
	if ok != wanted || got != want {
		t.Fatalf("Get(%x) = %+v, %v, want %+v, %v", k, got, ok, want, wanted)
	}
}

// compare compares everything: every key, the walk, the count, the file.
func (m *machine) compare(t fataler) {
	t.Helper()
	for k := range m.model {
		m.get(t, k)
	}
	m.compareWalk(t, Key{})
	live := int64(0)
	for _, e := range m.model {
		if e.State != StateForgotten {
			live++
		}
	}
	if m.l.Live() != live {
		t.Fatalf("Live() = %d, want %d", m.l.Live(), live)
	}
	if err := m.l.Check(m.tx); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) compareWalk(t fataler, from Key) {
	t.Helper()
	var want []Key
	for k := range m.model {
		if bytes.Compare(k[:], from[:]) >= 0 {
			want = append(want, k)
		}
	}
	slices.SortFunc(want, func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
	err := m.l.Walk(m.tx, from, func(e Entry) bool {
		if len(want) == 0 || want[0] != e.Key || m.model[e.Key] != e {
			t.Fatalf("Walk gives %+v, want key %x with %+v", e, want[:min(1, len(want))], m.model[e.Key])
		}
		want = want[1:]
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != 0 {
		t.Fatalf("Walk left out %d keys", len(want))
	}
}

// bounded checks the limits that must hold at every moment.
func (m *machine) bounded(t fataler) {
	t.Helper()
	if n := len(m.l.segments); n > m.sizes.maxSegments {
		t.Fatalf("%d segments, limit %d", n, m.sizes.maxSegments)
	}
	for _, h := range []*head{m.l.active, m.l.frozen} {
		if h.keys > m.sizes.headKeys || len(h.slab) > m.sizes.headBytes {
			t.Fatalf("head of %d keys and %d bytes, limits %d and %d", h.keys, len(h.slab), m.sizes.headKeys, m.sizes.headBytes)
		}
	}
	if !slices.IsSortedFunc(m.l.segments, func(a, b *segment) int { return a.tier - b.tier }) {
		t.Fatal("tiers do not ascend with age")
	}
}

func TestLedger(t *testing.T) {
	t.Run("answers_as_a_plain_map_does", func(t *testing.T) {
		reached := map[string]int{} // what the random runs came across
		rapid.Check(t, func(rt *rapid.T) {
			s := smallSizes()
			s.headKeys = 20
			s.pace = rapid.SampledFrom([]int{0, 1, 12}).Draw(rt, "pace")
			s.fanIn = rapid.IntRange(2, 4).Draw(rt, "fan-in")
			m := newMachine(t, s)
			defer m.close()
			key := rapid.IntRange(0, 400)
			rt.Repeat(map[string]func(*rapid.T){
				"put": func(rt *rapid.T) {
					var batch []Entry
					for range rapid.IntRange(1, 200).Draw(rt, "n") {
						e := m.next(key.Draw(rt, "key"), State(rapid.IntRange(1, 5).Draw(rt, "state")))
						m.model[e.Key] = e // seen by the batch's later entries
						batch = append(batch, e)
					}
					m.put(rt, batch)
				},
				"get":      func(rt *rapid.T) { m.get(rt, numbered(key.Draw(rt, "key"))) },
				"maintain": func(rt *rapid.T) { m.maintain(rt, rapid.IntRange(1, 5000).Draw(rt, "budget")) },
				"commit":   func(rt *rapid.T) { m.commit(rt) },
				"rollback": func(rt *rapid.T) {
					m.rollback(rt)
					if err := m.l.Reload(m.tx); err != nil {
						rt.Fatal(err)
					}
				},
				"reopen": func(rt *rapid.T) {
					for _, j := range m.l.jobs {
						reached[fmt.Sprint("reopened in a job of level ", j.level)]++
					}
					m.reopen(rt)
				},
				"walk": func(rt *rapid.T) { m.compareWalk(rt, numbered(key.Draw(rt, "from"))) },
				"all":  func(rt *rapid.T) { m.compare(rt) },
				"": func(rt *rapid.T) {
					m.bounded(rt)
					for _, s := range m.l.segments {
						reached[fmt.Sprint("tier ", s.tier)]++
					}
				},
			})
			m.compare(rt)
		})
		for _, what := range []string{
			"tier 0", "tier 1", "tier 2", "reopened in a job of level -1", "reopened in a job of level 0",
		} {
			if reached[what] == 0 {
				t.Errorf("no run reached %q: %v", what, reached)
			}
		}
	})
}

// TestCrash drops the ledger value after every step, however small, and opens
// the file again.
func TestCrash(t *testing.T) {
	t.Run("between_any_two_steps_loses_nothing", func(t *testing.T) {
		s := smallSizes()
		s.headKeys, s.pace, s.fanIn = 20, 0, 2
		m := newMachine(t, s)
		steps := map[string]int{}
		for n := 0; n < 360; n += 30 {
			var batch []Entry
			for i := range 30 {
				batch = append(batch, m.next((n+i)*7%250, StateOpen))
			}
			m.put(t, batch)
			for busy := true; busy; {
				if jobs := m.l.jobs; len(jobs) > 0 {
					steps[fmt.Sprint("level ", jobs[0].level, " clearing ", jobs[0].clearing)]++
				}
				busy = m.maintain(t, 1)
				m.commit(t)
				m.reopen(t)
				m.bounded(t)
				m.get(t, numbered(len(steps)*n%250))
			}
			m.compare(t)
		}
		for _, kind := range []string{"level -1", "level 0", "level 1", "level 2"} {
			for _, phase := range []string{" clearing false", " clearing true"} {
				if steps[kind+phase] < 5 {
					t.Errorf("only %d steps of %s%s were interrupted", steps[kind+phase], kind, phase)
				}
			}
		}
	})

	t.Run("with_a_rollback_between_any_two_steps_loses_nothing", func(t *testing.T) {
		s := smallSizes()
		s.headKeys, s.pace, s.fanIn = 20, 0, 2
		m := newMachine(t, s)
		for n := 0; n < 240; n += 30 {
			var batch []Entry
			for i := range 30 {
				batch = append(batch, m.next((n+i)*7%150, StateDone))
			}
			m.put(t, batch)
			m.commit(t)
			for busy := true; busy; {
				m.maintain(t, 1) // done, lost, done again
				m.rollback(t)
				if err := m.l.Reload(m.tx); err != nil {
					t.Fatal(err)
				}
				busy = m.maintain(t, 1)
				m.commit(t)
			}
			m.compare(t)
		}
	})
}
