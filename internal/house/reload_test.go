package house

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"breakwater/queue"
)

// underLoad is a configuration of many that a storm of reloads goes through: the
// route's handler is another one each time, of another kind, or none.
func underLoad(n int) string {
	handler := []string{"log", "yes", "consumers", "also"}[n%4]
	return fmt.Sprintf(`
queue {
  concurrency  = %d
  prefetch     = %d
  max_attempts = %d
}
route "ROUTE_REVIEW" { handler = %q }
handler "exec" "yes" { command = ["/bin/true"] }
handler "exec" "also" { command = ["/bin/sh", "-c", "exit 0", "%d"] }
`, 1+n%11, 1+n%32, 3+n%5, handler, n)
}

// replace puts another configuration in the place of the one that is read, as a whole:
// half of one can be sound too.
func (s *site) replace(more string) {
	s.Helper()
	if err := os.Rename(s.write("config.new", "data_dir = \"./var\"\n"+more), s.path("config.hcl")); err != nil {
		s.Fatal(err)
	}
}

func TestReload(t *testing.T) {
	t.Run("a storm of signals under load loses nothing", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, underLoad(1))
		p := s.serve()
		const lines, signals = 400, 50
		sent := make(chan []answer, 1)
		go func() {
			var text strings.Builder
			for i := range lines {
				fmt.Fprintln(&text, exceptionLine(fmt.Sprintf("p-%d", i%40), fmt.Sprint(i), ""))
			}
			sent <- s.sendAll(text.String())
		}()
		for n := range signals {
			s.replace(underLoad(n))
			p.signal(syscall.SIGHUP)
			if n%5 == 0 {
				p.await("reloaded")
			}
		}
		s.replace(underLoad(1))
		p.signal(syscall.SIGHUP)
		accepted := 0
		for _, a := range <-sent {
			if a.Status == "accepted" {
				accepted++
			}
		}
		if accepted != lines {
			t.Errorf("%d lines accepted, want %d", accepted, lines)
		}
		eventually(t, "everything is done", func() bool {
			asked := s.start("status", "--json")
			asked.wait()
			return strings.Contains(asked.out.all(), fmt.Sprintf(`"done":%d`, lines))
		})
		p.stop()
		s.sound()
		changes := 0
		for _, r := range s.trail() {
			if r.Event == queue.EventConfigChanged {
				changes++
			}
		}
		if changes < signals/5 {
			t.Errorf("%d changes recorded", changes)
		}
	})
}
