package cli

import (
	stdcmp "cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
	"github.com/google/go-cmp/cmp"

	"breakwater/internal/control/api"
)

var topStart = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// aLook is the n-th answer, five seconds after the one before.
func aLook(n int) look {
	at := func(d time.Duration) api.Time { return api.Time{Time: topStart.Add(d)} }
	now := time.Duration(n) * 5 * time.Second
	return look{
		at: topStart.Add(now),
		status: api.Status{
			Ready: 3, Held: 2, Dead: 3, Done: int64(1000 + 500*n), OpenKeys: 4, HeldKeys: 2, BlockedKeys: 1, LastSeq: uint64(2000 + 600*n),
			DeadByCode: map[string]int64{"POISON_MESSAGE": 1, "REJECTED": 2},
			AtRisk:     []api.AtRisk{{Currency: "EUR", Open: "1042.37", Held: "42.00", Dead: "0.00"}},
			Ages:       api.Ageing{Open: api.Ages{Under24h: 5}, Dead: api.Ages{Over7d: 3}},
			Intake:     api.Intake{Intake: api.IntakeOpen}, Version: "1.2.3", Now: at(now), StartedAt: at(-time.Hour),
			Oldest: []api.Oldest{{Route: "ROUTE_REVIEW", AgeMS: 61000, Seq: 7, PartitionKey: "ACME", TraceID: "t", AcceptedAt: at(-time.Minute)}},
			Routes: []api.Route{{Route: "ROUTE_REVIEW", Consumers: 1, Room: 4}},
		},
		keys: []api.Key{
			{Key: "ACME\x1b[2J", State: api.KeyBlocked, Open: 2, Amounts: []api.Amount{{Currency: "EUR", Amount: "42.00"}}, AcceptedAt: at(0),
				Letter: &api.KeyLetter{Seq: 5, Count: 1, Code: "REJECTED", Reason: "no account", DeadAt: at(0)}},
			{Key: "Birch", State: api.KeyHeld, Open: 1, Wait: &api.KeyWait{Seq: 6, Until: at(time.Hour), Retry: true}},
			{Key: "busy", State: api.KeyBusy, Open: 1},
		},
	}
}

const topText = `breakwater 1.2.3  up 1h0m  2026-03-02 09:00:10Z

ready 3   scheduled 0   in flight 0   held 2   dead 3   done 2,000   discarded 0
keys: 2 of 4 open keys wait; 1 blocked by dead letters
lately: 120/s stored, 100/s done in 5 s
ROUTE_REVIEW: 1 consumer attached, room for 4 more
dead letters: REJECTED 2   POISON_MESSAGE 1

AT RISK  OPEN     OF IT HELD  DEAD
EUR      1042.37  42.00       0.00

OLDEST        AGE   SEQ  PARTITION KEY  TRACE ID  ACCEPTED
ROUTE_REVIEW  1m1s  7    ACME           t         2026-03-02T08:59:00Z

AGE           UNDER 24 H  1-3 DAYS  3-7 DAYS  OVER 7 DAYS
open          5           0         0         0
dead letters  0           0         0         3

KEY          STATE    OPEN  AGE  AMOUNT     WAITS FOR
ACME\x1b[2J  blocked  2     10s  42.00 EUR  dead letter 5 for 10s: REJECTED: no account
Birch        held     1                     retry of seq 6 for 59m more

next: breakwater keys list --blocked`

func textOf(lines []topLine) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.text)
	}
	return strings.Join(all, "\n")
}

func TestTopView(t *testing.T) {
	t.Run("shows the newest answer and what changed since the one before", func(t *testing.T) {
		v := &topView{}
		v.take(aLook(1))
		v.take(aLook(2))
		if d := cmp.Diff(topText, textOf(v.lines(0))); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("the first answer has the rates that breakwater knows", func(t *testing.T) {
		v := &topView{}
		first := aLook(1)
		first.status.Recent = &api.Recent{Seconds: 60, Stored: 90, Done: 30}
		v.take(first)
		if text := textOf(v.lines(0)); !strings.Contains(text, "\nlately: 90 stored (1.5/s), 30 done (0.5/s), 0 discarded in 60 s\n") {
			t.Error(text)
		}
	})
	t.Run("another process is not compared with the one before", func(t *testing.T) {
		v := &topView{}
		v.take(aLook(1))
		next := aLook(2)
		next.status.StartedAt = next.status.Now
		v.take(next)
		if text := textOf(v.lines(0)); !strings.Contains(text, "\nlately: it has just begun\n") {
			t.Error(text)
		}
	})
	t.Run("without an answer it keeps the last one and says so", func(t *testing.T) {
		v := &topView{}
		v.take(aLook(1))
		v.take(look{at: topStart.Add(time.Minute), err: errors.New("nobody\x1b[2J")})
		v.take(look{at: topStart.Add(time.Hour), err: errors.New("nobody")})
		lines := v.lines(0)
		if lines[0] != (topLine{"no answer since 09:01:00Z: nobody", toneAlarm}) || !strings.Contains(textOf(lines), "ready 3") {
			t.Error(textOf(lines))
		}
		v.take(aLook(2))
		if text := textOf(v.lines(0)); strings.Contains(text, "no answer") {
			t.Error(text)
		}
	})
	t.Run("it fits any number of rows, and keeps the next command while it can", func(t *testing.T) {
		v := &topView{}
		v.take(aLook(1))
		all := len(v.lines(0))
		for height := 1; height <= all+3; height++ {
			lines := v.lines(height)
			if len(lines) > height {
				t.Fatalf("%d lines for %d rows", len(lines), height)
			}
			if last := lines[len(lines)-1].text; height >= all-3 && last != "next: breakwater keys list --blocked" {
				t.Errorf("%d rows end with %q", height, last)
			}
		}
	})
	t.Run("a small terminal has keys in place of other tables, and why they wait", func(t *testing.T) {
		v := &topView{}
		l := aLook(1)
		for _, currency := range []string{"JPY", "USD"} {
			l.status.AtRisk = append(l.status.AtRisk, api.AtRisk{Currency: currency, Open: "1", Held: "1", Dead: "1"})
		}
		l.keys[0].Letter.Seq, l.keys[0].Letter.DeadAt = 12345, api.Time{Time: topStart.Add(-3*time.Hour - 12*time.Minute)}
		l.keys[0].AcceptedAt, l.keys[0].Letter.Reason = api.Time{Time: topStart.Add(-4 * time.Hour)}, "exit status 65: no account 4711"
		for range 10 {
			l.keys = append(l.keys, l.keys[0])
		}
		l.status.Routes = append(l.status.Routes, api.Route{Route: "AUTO_RESOLVE"})
		l.status.Oldest = append(l.status.Oldest, api.Oldest{Route: "AUTO_RESOLVE", AgeMS: 1, Seq: 9})
		v.take(l)
		const height = 24
		lines, codes, reasons := v.lines(height), 0, 0 // that fit in 80, and in 120 columns
		for _, line := range lines {
			if strings.Contains(line.text[:min(80, len(line.text))], " for 3h: REJECTED") {
				codes++
			}
			if strings.Contains(line.text[:min(120, len(line.text))], "no account 4711") {
				reasons++
			}
		}
		text := textOf(lines)
		if len(lines) > height || codes < 4 || reasons != codes || !strings.Contains(text, "\nJPY ") || strings.Contains(text, "OVER 7 DAYS") ||
			!strings.HasSuffix(text, "\nnext: breakwater keys list --blocked\nnext: breakwater why 9") {
			t.Errorf("%d lines, %d keys with a code that fits, %d with a reason:\n%s", len(lines), codes, reasons, text)
		}
		if tall := textOf(v.lines(50)); !strings.Contains(tall, "OVER 7 DAYS") || !strings.Contains(tall, "\nOLDEST ") {
			t.Error(tall)
		}
	})
	t.Run("what asks for a person is marked", func(t *testing.T) {
		v := &topView{}
		l := aLook(1)
		l.status.Paused, l.status.Draining = &api.Pause{By: "olga"}, true
		l.status.Intake = api.Intake{Intake: api.IntakeFull, Saturated: "max_backlog"}
		l.status.Unavailable = []api.Outage{{Route: "AUTO_RESOLVE"}}
		v.take(l)
		var marked []string
		for _, line := range v.lines(0) {
			if line.tone == toneAlarm {
				marked = append(marked, strings.Fields(line.text)[0])
			}
		}
		if want := []string{"paused", "draining", "intake", "AUTO_RESOLVE", `ACME\x1b[2J`}; !cmp.Equal(marked, want) {
			t.Errorf("%q, want %q", marked, want)
		}
	})
}

// shown reads the rows of a terminal. A cell that nobody wrote to is blank.
func shown(mt vt.MockTerm, width, height int) string {
	var b strings.Builder
	for y := range height {
		var row strings.Builder
		for x := range width {
			row.WriteString(stdcmp.Or(mt.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)}).C, " "))
		}
		b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return b.String()
}

// TestTopOnScreen draws on a terminal in memory, and ends at a key, after a count, and
// when it is told to.
func TestTopOnScreen(t *testing.T) {
	const width, height = 140, 40
	open := func(t *testing.T) (vt.MockTerm, tcell.Screen) {
		mt := vt.NewMockTerm(vt.MockOptSize{X: width, Y: height})
		screen, err := tcell.NewTerminfoScreenFromTty(mt, tcell.OptNegotiation(false), tcell.OptTerm("xterm-256color"))
		if err != nil {
			t.Fatal(err)
		}
		return mt, screen
	}
	often := topOptions{interval: time.Microsecond}

	t.Run("until q is pressed", func(t *testing.T) {
		mt, screen := open(t)
		asked, drawn := 1, make(chan string, 1)
		err := drawTop(t.Context(), screen, often, aLook(1), func(ctx context.Context) look {
			if asked++; asked < 4 {
				return aLook(asked)
			}
			// The third answer has been taken, so the second one was drawn.
			select {
			case drawn <- shown(mt, width, height):
				go mt.KeyTap(vt.KeyQ)
			default:
			}
			<-ctx.Done()
			return look{err: ctx.Err()}
		})
		if err != nil {
			t.Fatal(err)
		}
		text := <-drawn
		for _, want := range []string{"breakwater 1.2.3  up 1h0m  2026-03-02 09:00:1", "lately: 120/s stored, 100/s done in 5 s", `ACME\x1b[2J  blocked`, "next: breakwater keys list --blocked"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	})
	t.Run("so many times", func(t *testing.T) {
		_, screen := open(t)
		asked := 1
		err := drawTop(t.Context(), screen, topOptions{interval: time.Microsecond, count: 3}, aLook(1), func(context.Context) look {
			asked++
			return aLook(asked)
		})
		if err != nil || asked != 3 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	})
	t.Run("until it is told to end", func(t *testing.T) {
		_, screen := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := drawTop(ctx, screen, often, aLook(1), func(context.Context) look {
			cancel()
			return look{err: context.Canceled}
		})
		if err != nil {
			t.Error(err)
		}
	})
}
