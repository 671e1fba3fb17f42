package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"breakwater/queue"
	"breakwater/storage/memstore"
)

var update = flag.Bool("update", false, "write the golden files anew")

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// scrape returns what a scraper gets, the runtime's own families left out.
func scrape(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if !strings.Contains(w.Body.String(), "\ngo_goroutines ") || !strings.Contains(w.Body.String(), "\nprocess_open_fds ") {
		t.Error("the runtime's families are missing")
	}
	var ours strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "breakwater_") {
			ours.WriteString(line)
		}
	}
	return ours.String()
}

// series returns the lines of a scrape that are values, without the values.
func series(text string) (names []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			names = append(names, line[:strings.LastIndexByte(line, ' ')])
		}
	}
	return names
}

// full returns a Metrics with everything it can show, over a store that holds a bit
// of everything. Its clock stands a minute after the store's lines came.
func full(t *testing.T) *Metrics {
	t.Helper()
	store := memstore.New(memstore.Options{})
	ctx := context.Background()
	if _, err := store.Start(ctx, queue.StartRequest{Now: start}); err != nil {
		t.Fatal(err)
	}
	var lines []queue.Submission
	for i := range 3 {
		line := fmt.Sprintf(`{"idempotency_key":"k%d","trace_id":"t","partition_key":"p%d","ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"1.00"}`, i, i)
		msg, err := queue.ParseLine([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, queue.Submission{Message: msg, LineBytes: int64(len(line)), LineHash: queue.LineHash([]byte(line))})
	}
	lines = append(lines, queue.Submission{Message: queue.Message{Line: []byte("x")}, Fault: &queue.Fault{Reason: "no"}, LineBytes: 1})
	if _, err := store.Admit(ctx, queue.AdmitRequest{Now: start, Lines: lines}); err != nil {
		t.Fatal(err)
	}
	if err := store.Pause(ctx, queue.Action{Now: start, By: "a"}); err != nil {
		t.Fatal(err)
	}
	status := func(ctx context.Context, now time.Time) (queue.StoreStatus, error) {
		st, err := store.Status(ctx, now)
		st.DiskFree = 1 << 30
		st.ArchivedN, st.ArchivedAt = 2, start
		return st, err
	}
	return New(Options{
		Version: "1.2.3", Status: status,
		Sockets: map[string]func() Connections{
			"enqueue": func() Connections { return Connections{Open: 2, Accepted: 7, Refused: 1, Failed: 3} },
			"control": func() Connections { return Connections{} },
		},
		Consumers:     func() int { return 4 },
		Available:     func(r queue.Route) (up, inProcess bool) { return r == queue.AutoResolve, true },
		StreamSkipped: func() uint64 { return 6 },
		Health: func(st *queue.StoreStatus, at time.Time) Health {
			return Health{
				Draining: st.Paused != nil, Waiting: 2, Saturated: queue.FullLedger, Stuck: []queue.Route{queue.AutoResolve},
				Limits: queue.Limits{MaxBacklog: 10, MaxLedgerKeys: 3, MinFreeBytes: 1 << 26},
			}
		},
		Checkpoints: func() Checkpoints { return Checkpoints{Written: 8, Failed: 1, Records: 61, At: start} },
		Now:         func() time.Time { return start.Add(time.Minute) },
	})
}

// feed tells m of one of everything, and of things that nobody foresaw.
func feed(m *Metrics) {
	m.Admitted(nil, 3*time.Millisecond)
	m.Lines(queue.Accepted, 2)
	m.Lines(queue.Rejected, 1)
	m.Lines(77, 1)
	m.Claimed([]queue.Delivery{
		{Route: queue.RouteReview, AcceptedAt: start},
		{Route: queue.RouteReview, AcceptedAt: start.Add(time.Hour)}, // the clock was set back
		{Route: queue.RouteReview, AcceptedAt: start, Redelivered: true},
		{Route: "ELSEWHERE", AcceptedAt: start},
	})
	for v := queue.Ack; v <= queue.Reject+1; v++ {
		m.Handled(&queue.Delivery{Route: queue.AutoResolve}, &queue.Answer{Verb: v}, 20*time.Millisecond)
	}
	down := queue.Unavailable("nobody listens", 0)
	m.Handled(&queue.Delivery{Route: queue.AutoResolve}, &down, time.Millisecond)
	m.Answered(queue.RouteReview, queue.Hold)
	m.Settled([]queue.SettleResult{{}, {}, {Code: queue.CodeExpired}, {Code: queue.CodeAlreadySettled}, {Code: queue.CodeUsage}}, time.Millisecond)
	m.Raised(queue.CodePoison, queue.RouteReview)
	m.Expired(queue.ExpireResult{Keys: 5}, nil)
	m.Expired(queue.ExpireResult{}, queue.ErrNoRoom)
	m.Trimmed(queue.TrimResult{Records: 40, Copies: 3}, nil)
	m.Trimmed(queue.TrimResult{}, queue.ErrNoRoom)
	m.Raised("SOMETHING_NEW", "")
	m.ReceiptsDropped(5)
	m.ReceiptsDropped(-1)
}

func TestScrape(t *testing.T) {
	m := full(t)
	feed(m)
	got := scrape(t, m)
	const golden = "testdata/scrape.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}

func TestNames(t *testing.T) {
	head := regexp.MustCompile(`(?m)^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$`)
	scraped := map[string]Description{}
	for _, f := range head.FindAllStringSubmatch(scrape(t, full(t)), -1) {
		scraped[f[1]] = Description{Name: f[1], Help: f[2], Kind: Kind(f[3])}
	}
	listed := map[string]bool{}
	for _, d := range Names() {
		if listed[d.Name] {
			t.Errorf("%s is listed twice", d.Name)
		}
		listed[d.Name] = true
		if got := scraped[d.Name]; got.Help != d.Help || got.Kind != d.Kind {
			t.Errorf("%s is listed as %s %q and scraped as %s %q", d.Name, d.Kind, d.Help, got.Kind, got.Help)
		}
		if strings.HasSuffix(d.Name, "_total") != (d.Kind == Counter) {
			t.Errorf("%s is a %s: counters, and only they, end in _total", d.Name, d.Kind)
		}
		if d.Unit != "" && !strings.HasSuffix(d.Name, "_"+d.Unit) {
			t.Errorf("%s does not end in its unit, %s", d.Name, d.Unit)
		}
		if (d.Kind == Histogram) != (d.Bounds != nil) || !slices.IsSorted(d.Bounds) {
			t.Errorf("%s: bounds %v for a %s", d.Name, d.Bounds, d.Kind)
		}
	}
	for name := range scraped {
		if !listed[name] {
			t.Errorf("%s is scraped and not listed", name)
		}
	}
	t.Run("labels are those of the table", func(t *testing.T) {
		labels := map[string]string{}
		for _, d := range Names() {
			labels[d.Name] = strings.Join(d.Labels, ",")
		}
		for _, s := range series(scrape(t, full(t))) {
			name, rest, _ := strings.Cut(strings.TrimSuffix(s, "}"), "{")
			if _, ok := labels[name]; !ok {
				name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			}
			var got []string
			for _, pair := range strings.Split(rest, `",`) {
				if label, _, ok := strings.Cut(pair, "="); ok && label != "le" {
					got = append(got, label)
				}
			}
			want := strings.Split(labels[name], ",")
			if labels[name] == "" {
				want = nil
			}
			slices.Sort(want) // as the text format has them
			if !slices.Equal(got, want) {
				t.Errorf("%s: labels %v, want %v", s, got, want)
			}
		}
	})
}

// B62: the number of series is that of the first scrape, whatever comes.
func TestSeries_are_fixed_by_config(t *testing.T) {
	m := full(t)
	before := series(scrape(t, m))
	if len(before) < 100 {
		t.Fatalf("only %d series", len(before))
	}
	for i := range 200_000 {
		s := strconv.Itoa(i)
		m.Lines(queue.Status(i), 1)
		m.Admitted([]queue.Receipt{{Status: queue.Status(i), Code: queue.Code(s), Field: s, Error: s}}, time.Duration(i))
		d := queue.Delivery{Route: queue.Route(s), Message: queue.Stored{TraceID: s, PartitionKey: s, IdempotencyKey: s}}
		m.Claimed([]queue.Delivery{d})
		m.Handled(&d, &queue.Answer{Verb: queue.Verb(i), Outcome: s, Reason: s, By: s}, time.Duration(i))
		m.Answered(queue.Route(s), queue.Verb(i))
		m.Settled([]queue.SettleResult{{Seq: uint64(i), Code: queue.Code(s)}}, time.Duration(i))
		m.Raised(queue.Code(s), queue.Route(s))
	}
	if d := cmp.Diff(before, series(scrape(t, m))); d != "" {
		t.Errorf("series (-before +after):\n%s", d)
	}
}

func TestLabels_know_every_word(t *testing.T) {
	for s := queue.Accepted; s <= queue.Rejected; s++ {
		if got := statuses[statusIndex(s)]; got != s.String() {
			t.Errorf("status %s counts as %s", s, got)
		}
	}
	want := map[queue.Verb]string{queue.Ack: "ack", queue.Retry: "retry", queue.Release: "release", queue.Hold: "hold", queue.Reject: "reject", 0: other, 200: other}
	for v, word := range want {
		if got := verbs[verbIndex(v, false)]; got != word {
			t.Errorf("verb %d counts as %s, want %s", v, got, word)
		}
	}
	if got := verbs[verbIndex(queue.Release, true)]; got != "unavailable" {
		t.Errorf("an unavailable handler counts as %s", got)
	}
	for _, r := range queue.Routes {
		if got := routes[routeIndex(r)]; got != string(r) {
			t.Errorf("route %s counts as %s", r, got)
		}
	}
	declared := declaredCodes(t)
	if len(declared) < 17 {
		t.Fatalf("found only %d codes in package queue", len(declared))
	}
	for _, c := range declared {
		if got := codes[codeIndex(queue.Code(c))]; got != c {
			t.Errorf("code %s counts as %s", c, got)
		}
	}
}

// declaredCodes reads the codes out of the source of package queue: a code that is
// added there must be added here.
func declaredCodes(t *testing.T) (found []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../queue/codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Code" {
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, word)
		}
		return true
	})
	return found
}

func TestStatus(t *testing.T) {
	up := func(t *testing.T, m *Metrics, want string) {
		t.Helper()
		text := scrape(t, m)
		if !strings.Contains(text, "\nbreakwater_store_up "+want+"\n") {
			t.Errorf("store_up is not %s", want)
		}
		if got := strings.Contains(text, "breakwater_exceptions{"); got != (want == "1") {
			t.Errorf("with store_up %s, counts of the store are there: %v", want, got)
		}
		if !strings.Contains(text, "breakwater_lines_total{") {
			t.Error("what was counted here is missing")
		}
	}
	t.Run("an error leaves the counters", func(t *testing.T) {
		up(t, New(Options{Status: func(context.Context, time.Time) (queue.StoreStatus, error) {
			return queue.StoreStatus{}, errors.New("closed")
		}}), "0")
	})
	t.Run("no store at all", func(t *testing.T) { up(t, New(Options{}), "0") })
	t.Run("a store that hangs is asked once and delays nobody beyond the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			awake := make(chan struct{})
			m := New(Options{Status: func(context.Context, time.Time) (queue.StoreStatus, error) {
				asked.Add(1)
				<-awake // whatever becomes of the context
				return queue.StoreStatus{}, nil
			}})
			for range 3 {
				began := time.Now()
				up(t, m, "0")
				if took := time.Since(began); took != DefaultStatusWait {
					t.Errorf("the scrape took %v", took)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
			close(awake)
			synctest.Wait()
			up(t, m, "1")
			if n := asked.Load(); n != 2 {
				t.Errorf("asked %d times after it woke", n)
			}
		})
	})
	t.Run("scrapes at once share one reading", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			m := New(Options{Status: func(context.Context, time.Time) (queue.StoreStatus, error) {
				asked.Add(1)
				<-time.After(time.Second)
				return queue.StoreStatus{Ready: 5}, nil
			}})
			var scrapes sync.WaitGroup
			for range maxScrapes {
				scrapes.Go(func() { up(t, m, "1") })
			}
			scrapes.Wait()
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	})
}

func TestCounting_allocates_nothing(t *testing.T) {
	m := New(Options{})
	receipts := make([]queue.Receipt, 100)
	deliveries := []queue.Delivery{{Route: queue.RouteReview, AcceptedAt: time.Now()}}
	answer := queue.Answer{Verb: queue.Ack}
	settled := []queue.SettleResult{{}, {Code: queue.CodeExpired}}
	if n := testing.AllocsPerRun(100, func() {
		m.Lines(queue.Accepted, len(receipts))
		m.Admitted(receipts, time.Millisecond)
		m.Claimed(deliveries)
		m.Handled(&deliveries[0], &answer, time.Millisecond)
		m.Settled(settled, time.Millisecond)
		m.Raised(queue.CodeSaturated, queue.RouteReview)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
