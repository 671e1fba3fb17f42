package control

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"breakwater/internal/control/api"
	"breakwater/partition"
	"breakwater/queue"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world fills a store with one exception of each state, and moves the clock on.
func world(t *testing.T, store queue.Store, c *clock) {
	t.Helper()
	ctx := t.Context()
	policy := queue.Policy{MaxAttempts: 3, MaxDeliveries: 5, RetryInitial: time.Minute, RetryMax: time.Hour}
	admit(t, store, c.Now(),
		exceptionLine("done", "K1", `,"variance_note":"`+"\u202e"+`"`),       // 1
		exceptionLine("dead", "K2", ""),                                      // 2
		exceptionLine("after-dead", "K2", ""),                                // 3: held
		exceptionLine("leased", "K3", `,"currency":"EUR"`),                   // 4
		exceptionLine("later", "K4", `,"not_before":"2026-03-03T09:00:00Z"`), // 5
		exceptionLine("done", "K1", `,"currency":"EUR"`),                     // 6: a conflict
		`{"idempotency_key":"bad"}`,                                          // 7: quarantined
		"{\"trace_id\":\"\xff\"",                                             // 8: quarantined, and no UTF-8
		exceptionLine("ready", "K5", `,"priority":9`),                        // 9
	)
	c.pass(time.Second)
	owner := queue.Owner{Kind: queue.Worker, Name: "w-0"}
	claimed, err := store.Claim(ctx, queue.ClaimRequest{Now: c.Now(), Wants: []queue.Want{{
		Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.RouteReview), Max: 3, PerKey: 1, Lease: time.Minute,
	}}})
	if err != nil || len(claimed.Deliveries[0]) != 3 {
		t.Fatalf("claim: %v, %v", claimed, err)
	}
	answers := map[uint64]queue.Settlement{
		1: {Verb: queue.Ack, Outcome: "APPROVED", By: "alice", Note: "fits"},
		2: {Verb: queue.Reject, Reason: "unknown\x1b[2Jaccount"},
	}
	var settle queue.SettleRequest
	for _, d := range claimed.Deliveries[0] {
		if a, ok := answers[d.Message.Seq]; ok {
			a.Token, a.Owner, a.At = d.Token, owner, c.Now()
			settle.Settlements = append(settle.Settlements, a)
		}
	}
	settle.Now, settle.Policy = c.Now(), policy
	if res, err := store.Settle(ctx, settle); err != nil || len(res) != 2 || res[0].Code != "" || res[1].Code != "" {
		t.Fatalf("settle: %v, %v", res, err)
	}
	c.pass(time.Minute)
}

// TestGolden asks everything there is and compares the answers, headers and all, with
// testdata/golden.txt: other people's scripts read them.
func TestGolden(t *testing.T) {
	c, store := newClock(), newStore(t)
	world(t, store, c)
	draining := false
	reloads := 0
	r := serve(t, Options{
		Store: store, Version: "1.2.3", Started: start, Now: c.Now,
		Ready: func(st *queue.StoreStatus, _ time.Time) Readiness {
			return Readiness{
				Draining: draining, Consumers: 2, Saturated: queue.FullBacklog, MaxAttempts: 3, Recent: &Recent{Window: time.Minute, Stored: 9, Done: 1},
				Serving: []queue.Serving{{Route: queue.AutoResolve, InProcess: true}, {Route: queue.RouteReview, Consumers: 2, Room: 5}},
			}
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "breakwater_x 1") }),
		Policy:  func() queue.Policy { return queue.Policy{MaxDeliveries: 5} },
		Drain:   func(queue.Action) { draining = true },
		Reload: func(context.Context, queue.Action) (r Reloaded, err error) {
			switch reloads++; reloads {
			case 1:
				r.Refused = []string{"config.hcl:3: queue.prefetch: 0 is less than 1"}
			case 2:
				r.Refused, r.Hint = []string{"metrics.listen changes only at a restart"}, "restart breakwater"
			case 3:
				r.File, r.Changed = "/etc/breakwater/config.hcl", []string{"log.level", "queue.prefetch"}
			}
			return r, nil
		},
		Archive: func(_ context.Context, a queue.Action, dest string) (api.Archive, error) {
			refused := map[string]*Refused{
				"":      {Code: queue.CodeUsage, Err: errors.New("the archive has no path"), Hint: "give one"},
				"/old":  {Code: queue.CodeUsage, Conflict: true, Err: errors.New("it exists already")},
				"/busy": {Code: queue.CodeSaturated, Err: errors.New("another archive is being made")},
				"/full": {Code: queue.CodeStorageUnavailable, Err: errors.New("no room")},
				"/bad":  {Code: queue.CodeInternal, Err: errors.New("the copy is not sound")},
			}[dest]
			if refused != nil {
				return api.Archive{}, refused
			}
			return api.Archive{
				Path: dest, Manifest: dest + ".manifest.json", MadeAt: api.Time{Time: a.Now}, Bytes: 4096, SHA256: "ab",
				Audit: api.Audit{Block: 3, Head: "cd", Records: 7}, LastSeq: 2,
			}, nil
		},
		Archiving: func() api.Archiving {
			return api.Archiving{Running: true, Path: "/new", By: "alice", Since: api.Time{Time: start}, Step: "copying", Done: 1, Total: 2}
		},
	})
	text, err := os.ReadFile("testdata/requests.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	asked := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&got, line)
			continue
		}
		parts := append(strings.SplitN(line, " ", 3), "")
		asked++
		answer := r.ask(parts[0], parts[1], parts[2])
		fmt.Fprintf(&got, "> %s\n%s", line, answer.text())
		c.pass(time.Second)
	}
	if asked < 30 {
		t.Fatalf("only %d requests", asked)
	}
	const golden = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// text is an answer as the golden file has it: one member of an object a line, so
// that a difference can be read.
func (a reply) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "< %d %s", a.status, a.header.Get("Content-Type"))
	for _, name := range []string{"Allow", "Retry-After"} {
		if v := a.header.Get(name); v != "" {
			fmt.Fprintf(&b, " %s: %s", name, v)
		}
	}
	body := regexp.MustCompile(`,"`).ReplaceAllString(a.body, ",\n   \"")
	fmt.Fprintf(&b, "\n%s\n", body)
	return b.String()
}
