package cli

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/internal/config"
)

// gated is a reader of the log that takes entries only while its gate is open.
type gated struct {
	gate sync.RWMutex
	mu   sync.Mutex
	text bytes.Buffer
}

// Write waits at the gate.
func (g *gated) Write(b []byte) (int, error) {
	for !g.gate.TryRLock() {
		<-time.After(time.Millisecond) // of the bubble
	}
	defer g.gate.RUnlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *gated) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Split(strings.TrimSuffix(g.text.String(), "\n"), "\n")
}

// Each entry is out before its writer goes on; a reader that takes none is waited for once
// and for a second, not by each entry; what it takes then is in order, and what is not
// there is counted at its place.
func TestPatientWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(gated)
		w := newPatientWriter(out, func(n int) []byte { return fmt.Appendf(nil, "%d left out\n", n) })
		say := func(format string, args ...any) time.Duration {
			began := time.Now()
			if _, err := fmt.Fprintf(w, format, args...); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		for i := range 100 {
			took := say("open %d\n", i)
			if got := out.lines(); took != 0 || got[len(got)-1] != fmt.Sprintf("open %d", i) {
				t.Fatalf("after %v: %q", took, got)
			}
		}
		out.gate.Lock()
		if took := say("first\n"); took != logPatience {
			t.Errorf("the first entry was waited for %v", took)
		}
		pad := strings.Repeat("x", 1000)
		const many = 1000
		for i := range many {
			if took := say("%d %s\n", i, pad); took != 0 {
				t.Fatalf("entry %d was waited for %v", i, took)
			}
		}
		if w.bytes > logQueue {
			t.Errorf("%d bytes wait", w.bytes)
		}
		out.gate.Unlock()
		<-time.After(time.Minute)
		say("last\n")
		got := out.lines()[100:]
		taken, left := 0, 0
		for i, line := range got {
			switch {
			case i == 0 && line == "first" || i == len(got)-1 && line == "last":
			case strings.HasSuffix(line, "left out"):
				n := 0
				if _, err := fmt.Sscanf(line, "%d left out", &n); err != nil || i != len(got)-2 {
					t.Errorf("line %d: %s", i, line)
				}
				left += n
			case strings.HasPrefix(line, fmt.Sprint(taken, " x")):
				taken++
			default:
				t.Fatalf("line %d: %.40s", i, line)
			}
		}
		if taken+left != many || taken < logQueue/2000 || left == 0 {
			t.Errorf("%d taken, %d left out, of %d", taken, left, many)
		}
		if took := say("again\n"); took != 0 {
			t.Errorf("it is still waited for: %v", took)
		}
		out.gate.Lock()
		defer out.gate.Unlock()
		say("second\n")
		began := time.Now()
		if w.flush(); time.Since(began) != logPatience {
			t.Errorf("the end waits for %v", time.Since(began))
		}
		out.gate.Unlock()
		<-time.After(time.Second) // its goroutine ends with the bubble
		out.gate.Lock()
	})
}

// dripping is a reader of the log that takes an entry for each drop.
type dripping chan struct{}

// Write waits for a drop.
func (d dripping) Write(b []byte) (int, error) {
	<-d
	return len(b), nil
}

// A reader that takes an entry now and then, while others wait, is waited for once, too.
func TestPatientWriter_before_a_slow_reader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(dripping)
		w := newPatientWriter(out, func(int) []byte { return nil })
		began := time.Now()
		for i := range 20 {
			for range 2 {
				if _, err := fmt.Fprintf(w, "entry of round %d\n", i); err != nil {
					t.Error(err)
				}
			}
			out <- struct{}{}
			synctest.Wait()
		}
		if waited := time.Since(began); waited != logPatience {
			t.Errorf("it was waited for %v", waited)
		}
		close(out) // it takes all
		synctest.Wait()
		if _, err := w.Write([]byte("again\n")); err != nil || w.stuck {
			t.Errorf("stuck: %v, %v", w.stuck, err)
		}
	})
}

// What says that entries were left out is an entry of the log itself.
func TestLogger_says_what_is_missing(t *testing.T) {
	for format, want := range map[string]string{"json": `"entries":7`, "text": "entries=7"} {
		c := config.Config{Log: config.Log{Level: "error", Format: format}}
		if got := string(leftOut(c)(7)); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "\n") {
			t.Errorf("%s: %q", format, got)
		}
	}
}
