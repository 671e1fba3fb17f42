package house

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/client"
)

// benchLine is an exception of a usual size, about 350 bytes, for AUTO_RESOLVE.
func benchLine(i int, route string) string {
	key := fmt.Sprintf("ENTITY-%03d", i*7919%1000)
	return exceptionLine(key, fmt.Sprintf("%s-%09d", key, i), fmt.Sprintf(
		`,"currency":"EUR","route":%q,"source":"engine-7","counterparty":"Alder & Birch Holdings N.V.","text":"settlement difference on an invoice"`, route))
}

// inFlight sends lines with at most so many of them unanswered, and returns when
// all are answered.
func (s *site) inFlight(lines []string, most int) {
	s.Helper()
	c := s.connect()
	defer c.Close()
	receipts := bufio.NewReaderSize(c, 1<<20)
	for len(lines) > 0 {
		n := min(most, len(lines))
		if _, err := c.Write([]byte(strings.Join(lines[:n], "\n") + "\n")); err != nil {
			s.Fatal(err)
		}
		for range n {
			line, err := receipts.ReadSlice('\n')
			if err != nil || !strings.Contains(string(line), `"accepted"`) {
				s.Fatalf("%s, %v", line, err)
			}
		}
		lines = lines[n:]
	}
}

// BenchmarkLife is the whole life of exceptions in the real program, from the
// socket to the settlement: one producer that waits for its receipts after so many
// lines, sixteen of them, and one that streams as the command enqueue does. One iteration is one exception; the
// clock stops when the last is done.
func BenchmarkLife(b *testing.B) {
	life := func(name, config string, send func(s *site, lines []string)) {
		b.Run(name, func(b *testing.B) {
			s := newSite(b, config)
			p := s.serve()
			lines := make([]string, b.N)
			for i := range lines {
				lines[i] = benchLine(i, "AUTO_RESOLVE")
			}
			b.ResetTimer()
			send(s, lines)
			stored := b.Elapsed()
			s.awaitDone(b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/stored.Seconds(), "receipts/s")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lives/s")
			p.stop()
		})
	}
	for _, producers := range []int{1, 16} {
		for _, most := range []int{1, 100, 1000} {
			life(fmt.Sprintf("inflight=%d/producers=%d", most, producers), "", func(s *site, lines []string) {
				var all sync.WaitGroup
				for i := range producers {
					mine := lines[i*len(lines)/producers : (i+1)*len(lines)/producers]
					all.Go(func() { s.inFlight(mine, most) })
				}
				all.Wait()
			})
		}
	}
	stream := func(s *site, lines []string) { s.stream(strings.Join(lines, "\n")) }
	life("stream", "", stream)
	// Channels as long as a busy host would have them: more in one transaction.
	life("stream/queue_maxsize=4096", "queue {\n  queue_maxsize = 4096\n  prefetch = 2048\n}\n", stream)
}

// BenchmarkConsumers is how fast exceptions are handed out and settled by consumers of
// package client whose work takes no time: one with so many at once, and four. The
// exceptions are stored before the clock starts.
func BenchmarkConsumers(b *testing.B) {
	for _, one := range []struct{ consumers, prefetch int }{{1, 1}, {1, 16}, {1, 256}, {4, 16}, {4, 256}} {
		b.Run(fmt.Sprintf("consumers=%d/prefetch=%d", one.consumers, one.prefetch), func(b *testing.B) {
			s := newSite(b, "")
			p := s.serve()
			var text strings.Builder
			for i := range b.N {
				text.WriteString(benchLine(i, "ROUTE_REVIEW") + "\n")
			}
			s.stream(text.String())
			ctx, stop := context.WithCancel(b.Context())
			var all sync.WaitGroup
			b.ResetTimer()
			for i := range one.consumers {
				all.Go(func() {
					c := client.Consumer{Path: s.consumeSocket(), Name: fmt.Sprint("c", i), Prefetch: one.prefetch}
					if err := c.Run(ctx, func(context.Context, client.Delivery) client.Answer {
						return client.Answer{Verb: client.Ack, Outcome: "POSTED"}
					}); err != nil {
						b.Error(err)
					}
				})
			}
			s.awaitDone(b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "settled/s")
			stop()
			all.Wait()
			p.stop()
		})
	}
}

// stream sends text as the command enqueue does.
func (s *site) stream(text string) {
	s.Helper()
	p := client.Producer{Path: s.enqueueSocket()}
	if res, err := p.Send(s.Context(), strings.NewReader(text)); err != nil || res.Accepted != res.Lines {
		s.Fatalf("%+v, %v", res, err)
	}
}

// BenchmarkCommands is how fast exceptions are handled by an exec handler whose command
// does nothing. They are stored before the clock starts.
func BenchmarkCommands(b *testing.B) {
	for _, workers := range []int{1, 8} {
		b.Run(fmt.Sprint("concurrency=", workers), func(b *testing.B) {
			s := newSite(b, "")
			p := s.serve()
			var text strings.Builder
			for i := range b.N {
				text.WriteString(benchLine(i, "ROUTE_REVIEW") + "\n")
			}
			s.stream(text.String())
			p.stop()
			s.configure(fmt.Sprintf(`
queue { concurrency = %d }
route "ROUTE_REVIEW" { handler = "nothing" }
handler "exec" "nothing" { command = ["/bin/true"] }
`, workers))
			b.ResetTimer()
			p = s.serve()
			s.awaitDone(b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
			p.stop()
		})
	}
}

// backlog is how many messages a benchmark begins with: BREAKWATER_BENCH_BACKLOG (a
// million is a good number), or 20,000.
func backlog(b *testing.B) int { return number(b, "BREAKWATER_BENCH_BACKLOG", 20000) }

// number is what a variable of the environment says, or this.
func number(b *testing.B, name string, usual int) int {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// pileUp sends so many lines for which there is no handler.
func (s *site) pileUp(n int) {
	s.Helper()
	const step = 20000
	for from := 0; from < n; from += step {
		var text strings.Builder
		for i := from; i < min(n, from+step); i++ {
			text.WriteString(benchLine(i, "ROUTE_REVIEW") + "\n")
		}
		s.stream(text.String())
	}
}

// BenchmarkRestart is how long a start takes with a backlog, after a clean stop and after a kill, and what memory the program then has of its own.
func BenchmarkRestart(b *testing.B) {
	n := backlog(b)
	s := newSite(b, "")
	p := s.serve()
	s.pileUp(n)
	loaded := p.rssAnon()
	p.stop()
	for _, how := range []string{"clean", "killed"} {
		b.Run(fmt.Sprintf("backlog=%d/%s", n, how), func(b *testing.B) {
			var rss int64
			for b.Loop() {
				p := s.serve()
				b.StopTimer()
				rss = p.rssAnon()
				// The first commit makes a clean store one that is in use.
				if how == "clean" {
					p.stop()
				} else {
					p.kill()
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ready-ms")
			b.ReportMetric(float64(rss)/(1<<20), "RssAnon-MiB")
			b.ReportMetric(float64(loaded)/(1<<20), "RssAnon-loaded-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
	info, err := os.Stat(s.store())
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("the file has %d MiB; %s", info.Size()>>20, time.Now().Format(time.DateOnly))
}
