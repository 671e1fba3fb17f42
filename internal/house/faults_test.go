package house

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage"
)

// TestCrash_long_leases_hold_nobody_up kills the program while its workers hold a
// hundred exceptions under leases of ten minutes. The next start gives all of
// them back, and blames only what was running.
func TestCrash_long_leases_hold_nobody_up(t *testing.T) {
	t.Parallel()
	const n, workers, room, hold = 200, 8, 256, 100
	s := newSite(t, fmt.Sprintf(`
queue {
  concurrency      = %d
  queue_maxsize    = %d
  prefetch         = %d
  lease_timeout_ms = 600000
}
route "ROUTE_REVIEW" { handler = "slow" }
handler "exec" "slow" {
  command    = ["/bin/sh", "-c", "while test -e busy; do sleep 0.05; done"]
  timeout_ms = 1000000
}
`, workers, room, room))
	s.write("busy", "")
	p := s.serve()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, exceptionLine(fmt.Sprint("K", i), fmt.Sprint("k", i), ""))
	}
	s.sendAll(lines.String())
	held := 0
	eventually(t, "the channels are full", func() bool { held = s.counts().Leased; return held >= hold })
	p.kill()
	if err := os.Remove(s.path("busy")); err != nil {
		t.Fatal(err)
	}
	p = s.serve()
	s.awaitDone(n) // or patience ends, long before the leases would
	p.stop()

	var started struct {
		GaveBack int `json:"gave_back"`
	}
	if err := json.Unmarshal(s.last(queue.EventStarted).Detail, &started); err != nil || started.GaveBack < held {
		t.Errorf("the start gave back %d of %d: %v", started.GaveBack, held, err)
	}
	blamed := 0
	for _, r := range s.trail() {
		if r.Event == queue.EventReclaimed && r.Unanswered > 0 {
			blamed++
		}
	}
	if blamed == 0 || blamed > workers {
		t.Errorf("%d deliveries were counted, %d could have been running", blamed, workers)
	}
	s.sound()
}

// counts asks the running program.
func (s *site) counts() (st struct{ Ready, Leased, Dead, Done int }) {
	s.Helper()
	s.control("/v1/status", &st)
	return st
}

// TestReplay_interrupted stops a replay of everything in the middle: by a signal
// to the command, by killing it, and by killing the server under it. Each letter is in
// one place at every moment, and the next replay goes on where that one ended.
func TestReplay_interrupted(t *testing.T) {
	t.Parallel()
	const n = 6000
	s := newSite(t, "") // nobody works on ROUTE_REVIEW
	s.deadLetters(n)
	p := s.serve()
	whole := func(when string) int {
		t.Helper()
		st := s.counts()
		if st.Ready+st.Dead != n {
			t.Errorf("%s: %d are ready, %d dead, of %d", when, st.Ready, st.Dead, n)
		}
		return st.Ready
	}
	ready := 0
	for _, c := range []struct {
		what string
		stop func(replay *process)
	}{
		{"Ctrl-C", func(replay *process) { replay.signal(syscall.SIGINT) }},
		{"kill -9 of the command", func(replay *process) { replay.kill() }},
		{"kill -9 of the server", func(*process) { p.kill(); p = s.serve() }},
	} {
		replay := s.start("dlq", "replay", "--all", "--reason", "mended")
		eventually(t, "some are back", func() bool { return s.counts().Ready > ready || s.counts().Dead == 0 })
		c.stop(replay)
		status := replay.wait()
		now := whole(c.what)
		t.Logf("%s: %d are back, exit status %d", c.what, now, status)
		if now < n && status == 0 {
			t.Errorf("%s: exit status 0, and %d are dead:\n%s", c.what, n-now, replay.out.all())
		}
		ready = now
	}
	if said := s.says("dlq", "replay", "--all"); !strings.Contains(said, ", 0 refused") {
		t.Errorf("the last one says %s", said)
	}
	if got := whole("in the end"); got != n {
		t.Errorf("%d are back", got)
	}
	p.stop()
	replayed := map[uint64]int{}
	for _, r := range s.trail() {
		if r.Event == queue.EventReplayed {
			replayed[r.Seq]++
		}
	}
	for seq := range uint64(n) {
		if replayed[seq+1] != 1 {
			t.Errorf("seq %d was replayed %d times", seq+1, replayed[seq+1])
		}
	}
	s.verify()
}

// TestStart_memory_does_not_depend_on_the_backlog starts on 40 MB of lines that nobody
// works on, and looks at them.
func TestStart_memory_does_not_depend_on_the_backlog(t *testing.T) {
	t.Parallel()
	const n, size = 10_000, 4 << 10
	s := newSite(t, "")
	p := s.serve()
	empty := p.rssAnon()
	p.stop()
	s.fill(func(admit func(...string)) {
		more := `,"text":"` + strings.Repeat("x", size) + `"`
		for from := 0; from < n; from += 500 {
			var lines []string
			for i := from; i < from+500; i++ {
				lines = append(lines, exceptionLine(fmt.Sprint("K", i%100), fmt.Sprint("k", i), more))
			}
			admit(lines...)
		}
	})
	p = s.serve()
	if used := p.rssAnon() - empty; used > n*size/4 {
		t.Errorf("%d MB of lines took %d MB of memory", n*size>>20, used>>20)
	}
	if got := s.counts().Ready; got != n {
		t.Errorf("%d are ready", got)
	}
	var page struct {
		Items []json.RawMessage
		Next  string
	}
	s.control("/v1/exceptions?limit=1000&lines=false", &page)
	if len(page.Items) == 0 || page.Next == "" {
		t.Errorf("a page has %d rows, next %q", len(page.Items), page.Next)
	}
	if used := p.rssAnon() - empty; used > n*size/2 {
		t.Errorf("after a page: %d MB of memory", used>>20)
	}
	p.stop()
}

// fill works on the store while nobody serves it.
func (s *site) fill(work func(admit func(...string))) {
	s.Helper()
	store := s.open()
	work(func(lines ...string) { s.admit(store, lines...) })
	if err := store.Close(); err != nil {
		s.Fatal(err)
	}
}

// open takes the store into service.
func (s *site) open() queue.Store {
	s.Helper()
	store, _, err := storage.Open(storage.Options{Path: s.store()})
	if err != nil {
		s.Fatal(err)
	}
	if _, err := store.Start(s.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		s.Fatal(err)
	}
	return store
}

// admit stores lines.
func (s *site) admit(store queue.Store, lines ...string) {
	s.Helper()
	r := queue.AdmitRequest{Now: time.Now()}
	for _, line := range lines {
		m, err := queue.ParseLine([]byte(line))
		if err != nil {
			s.Fatal(err)
		}
		r.Lines = append(r.Lines, queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash([]byte(line))})
	}
	if _, err := store.Admit(s.Context(), r); err != nil {
		s.Fatal(err)
	}
}

// claim leases so many exceptions, any number of a key, for an hour.
func (s *site) claim(store queue.Store, o queue.Owner, n int) []queue.Delivery {
	s.Helper()
	res, err := store.Claim(s.Context(), queue.ClaimRequest{Now: time.Now(), Wants: []queue.Want{{
		Owner: o, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: n, PerKey: n, Lease: time.Hour,
	}}})
	if err != nil || len(res.Deliveries[0]) != n {
		s.Fatalf("%d of %d leases, %v", len(res.Deliveries[0]), n, err)
	}
	return res.Deliveries[0]
}

// deadLetters makes a store with so many exceptions that a handler has rejected.
func (s *site) deadLetters(n int) {
	s.Helper()
	store, w := s.open(), queue.Owner{Kind: queue.Worker, Name: "w"}
	var lines []string
	for i := range n {
		lines = append(lines, exceptionLine(fmt.Sprint("K", i%100), fmt.Sprint("k", i), ""))
	}
	for some := range slices.Chunk(lines, 1000) {
		s.admit(store, some...)
		r := queue.SettleRequest{Now: time.Now(), Policy: queue.Policy{OnDeadLetter: queue.SkipDead}}
		for _, d := range s.claim(store, w, len(some)) {
			r.Settlements = append(r.Settlements, queue.Settlement{Token: d.Token, Owner: w, Verb: queue.Reject, At: r.Now, Reason: "unknown account"})
		}
		if _, err := store.Settle(s.Context(), r); err != nil {
			s.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		s.Fatal(err)
	}
}
