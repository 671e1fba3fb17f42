package house

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// backlog is how many messages a benchmark begins with: BREAKWATER_BENCH_BACKLOG (a
// million is a good number), or 20,000.
func backlog(b *testing.B) int {
	text := os.Getenv("BREAKWATER_BENCH_BACKLOG")
	if text == "" {
		return 20000
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

// BenchmarkArchive is how long a producer waits for its receipts while the store is
// copied, and while the copy is checked, against what it waits otherwise: one that sends
// a line at a time, beside fifteen that send ten, so that the store is never idle. One
// iteration is one archive. What neighbours of the machine do is in all three.
func BenchmarkArchive(b *testing.B) {
	s := newSite(b, "")
	p := s.serve()
	s.pileUp(backlog(b))
	s.mkdir("archives")
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 15 {
		others.Go(func() { s.latencies(10, stop, func(time.Duration) {}) })
	}
	waits := map[string][]time.Duration{}
	wait := func(phase string) func(time.Duration) {
		return func(d time.Duration) { waits[phase] = append(waits[phase], d) }
	}
	var took time.Duration
	for i := range b.N {
		quiet := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { close(quiet) })
		s.latencies(1, quiet, wait("without"))
		path := s.path(fmt.Sprintf("archives/%d.db", i))
		begun := time.Now()
		done, copied := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			s.command("archive", path)
		}()
		go func() {
			defer close(copied)
			var now struct{ Step string }
			look := time.NewTicker(20 * time.Millisecond)
			defer look.Stop()
			for now.Step == "" || now.Step == "preparing" || now.Step == "copying" {
				<-look.C
				s.control("/v1/archive", &now)
			}
		}()
		s.latencies(1, copied, wait("copying"))
		s.latencies(1, done, wait("checking"))
		took += time.Since(begun)
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
		_ = os.Remove(path)
	}
	close(stop)
	others.Wait()
	p.stop()
	for name, all := range waits {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-p99-ms")
		b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, name+"-max-ms")
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "archive-s")
	b.ReportMetric(0, "ns/op")
}

// latencies sends lines, so many at a time, until it is told to stop, and says how long
// each time took to its last receipt.
func (s *site) latencies(lines int, stop <-chan struct{}, say func(time.Duration)) {
	c := s.connect()
	defer c.Close()
	receipts := bufio.NewReader(c)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		var text strings.Builder
		for range lines {
			n := latencyLines.Add(1)
			text.WriteString(exceptionLine(fmt.Sprint("L", n%1000), fmt.Sprint("latency-", n), `,"route":"AUTO_RESOLVE"`) + "\n")
		}
		begun := time.Now()
		if _, err := c.Write([]byte(text.String())); err != nil {
			return
		}
		for range lines {
			if _, err := receipts.ReadSlice('\n'); err != nil {
				return
			}
		}
		say(time.Since(begun))
	}
}

var latencyLines atomic.Int64
