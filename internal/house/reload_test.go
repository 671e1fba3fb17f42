package house

import (
	"fmt"
	"io"
	"net"
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
	t.Run("limits of connections follow, and close nothing", func(t *testing.T) {
		t.Parallel()
		limits := func(n int) (text string) {
			for _, d := range doorways {
				text += fmt.Sprintf("socket %q {\n  max_connections = %d\n}\n", d.socket, n)
			}
			return text
		}
		s := newSite(t, limits(2))
		p := s.serve()
		open := map[string][]*guestAt{}
		for _, d := range doorways {
			open[d.socket] = []*guestAt{s.comeTo(d, 1), s.comeTo(d, 2)}
			s.refusedAt(d)
		}
		s.replace(limits(3))
		p.signal(syscall.SIGHUP)
		p.await("reloaded")
		for _, d := range doorways {
			open[d.socket] = append(open[d.socket], s.comeTo(d, 3))
			s.refusedAt(d)
		}
		s.replace(limits(1))
		p.signal(syscall.SIGHUP)
		p.await("reloaded")
		for _, d := range doorways {
			s.refusedAt(d)
			for _, g := range open[d.socket] {
				g.ask(d.again)
			}
		}
		p.stop()
		s.sound()
	})
}

// doorway is a socket, and something to say there that is answered: first, and again. A
// %d is who says it.
type doorway struct{ socket, first, again string }

var doorways = []doorway{
	{"enqueue", exceptionLine("k", "first-%d", "") + "\n", exceptionLine("k", "again-%d", "") + "\n"},
	{"consume", `{"attach":"guest-%d","prefetch":1,"routes":["AUTO_RESOLVE"]}` + "\n", "{}\n"},
	{"control", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"},
}

// guestAt is a connection through a doorway.
type guestAt struct {
	*site
	net.Conn
	n int
}

// comeTo connects, says something, and must be answered.
func (s *site) comeTo(d doorway, n int) *guestAt {
	s.Helper()
	c, err := net.Dial("unix", s.path("var/run/"+d.socket+".sock"))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	g := &guestAt{site: s, Conn: c, n: n}
	g.ask(d.first)
	return g
}

// ask says something and must be answered, by more than a refusal.
func (g *guestAt) ask(text string) {
	g.Helper()
	text = strings.ReplaceAll(text, "%d", fmt.Sprint(g.n))
	answer := make([]byte, 4096)
	if _, err := io.WriteString(g, text); err != nil {
		g.Fatal(err)
	}
	n, err := g.Read(answer)
	if err != nil || strings.Contains(string(answer[:n]), string(queue.CodeSaturated)) {
		g.Errorf("%q was answered %q, %v", text, answer[:n], err)
	}
}

// refusedAt connects, and must be told that there are too many.
func (s *site) refusedAt(d doorway) {
	s.Helper()
	c, err := net.Dial("unix", s.path("var/run/"+d.socket+".sock"))
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	if told, err := io.ReadAll(c); err != nil || !strings.Contains(string(told), string(queue.CodeSaturated)) {
		s.Errorf("one more at %s was told %q, %v", d.socket, told, err)
	}
}
