package house

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkArchive is how long a producer waits for its receipts while the store is
// copied, and while the copy is checked, against what it waits otherwise: one that sends
// a line at a time, beside fifteen that send ten, so that the store is never idle. It
// makes BREAKWATER_BENCH_ARCHIVES archives (3), one after the other, and prints a table.
// What neighbours of the machine do is in all of its rows.
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
	s.latencies(1, after(2*time.Second), func(time.Duration) {}) // until all of them send
	var without, copying, checking observed
	var took time.Duration
	archives := number(b, "BREAKWATER_BENCH_ARCHIVES", 3)
	for i := range archives {
		without.watch(s, after(10*time.Second))
		path := s.path(fmt.Sprintf("archives/%d.db", i))
		begun := time.Now()
		copied, done := s.archiving(path)
		copying.watch(s, copied)
		checking.watch(s, done)
		took += time.Since(begun)
		info, err := os.Stat(path)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
		s.removeGently(path)
	}
	close(stop)
	others.Wait()
	p.stop()
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tseconds\treceipts\tmedian ms\t99 % ms\tworst of a second ms\tlongest ms\tover 100 ms a second\t")
	without.row(t, "nothing")
	copying.row(t, "copying")
	checking.row(t, "checking")
	_ = t.Flush()
	without.tooLong(&text, "nothing")
	copying.tooLong(&text, "copying")
	checking.tooLong(&text, "checking")
	b.Logf("%d archives, %s\n%s", archives, time.Now().Format(time.DateOnly), text.String())
	b.ReportMetric(took.Seconds()/float64(archives), "archive-s")
	b.ReportMetric(0, "ns/op")
}

// after is closed after a while.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// archiving has an archive made, and says when the store is copied, and when all is done.
func (s *site) archiving(path string) (copied, done <-chan struct{}) {
	first, all := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(all)
		s.command("archive", path)
	}()
	go func() {
		defer close(first)
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for now := struct{ Step string }{}; now.Step == "" || now.Step == "preparing" || now.Step == "copying"; {
			select {
			case <-look.C:
				s.control("/v1/archive", &now)
			case <-all:
				return
			}
		}
	}()
	return first, all
}

// removeGently removes a large file a piece at a time: a disk that is told of what is
// free (mount option discard) may take longer for all of it at once than for a sync.
func (s *site) removeGently(path string) {
	s.Helper()
	const piece = 16 << 20
	info, err := os.Stat(path)
	if err != nil {
		s.Fatal(err)
	}
	for size := info.Size(); err == nil && size > 0; {
		size = max(0, size-piece)
		err = os.Truncate(path, size)
		<-after(20 * time.Millisecond)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// observed is how long a producer waited, receipt by receipt, in the same circumstances.
type observed struct {
	waits []time.Duration
	worst []time.Duration // of each second
	long  time.Duration   // for how long it was looked at
	late  []string        // the receipts that took over 100 ms
}

// watch looks on until it is told to stop.
func (o *observed) watch(s *site, stop <-chan struct{}) {
	begun := time.Now()
	s.latencies(1, stop, func(d time.Duration) {
		o.waits = append(o.waits, d)
		if d > 100*time.Millisecond {
			o.late = append(o.late, fmt.Sprintf("%s after %d ms", time.Now().Format("15:04:05.000"), d.Milliseconds()))
		}
		second := int((o.long + time.Since(begun)).Seconds())
		for len(o.worst) <= second {
			o.worst = append(o.worst, 0)
		}
		o.worst[second] = max(o.worst[second], d)
	})
	o.long += time.Since(begun)
}

// row prints it. The longest of all is the longer the longer one looks; the worst of a
// second, of which this is the median, is not, and neither is how many are too long.
func (o *observed) row(t *tabwriter.Writer, name string) {
	slices.Sort(o.waits)
	slices.Sort(o.worst)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	n := len(o.waits)
	fmt.Fprintf(t, "%s\t%.1f\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t\n", name, o.long.Seconds(), n,
		ms(o.waits[n/2]), ms(o.waits[n*99/100]), ms(o.worst[len(o.worst)/2]), ms(o.waits[n-1]), float64(len(o.late))/o.long.Seconds())
}

// tooLong lists when the receipts came that took over 100 ms, to be held against what
// another program saw of the same disk.
func (o *observed) tooLong(b *strings.Builder, name string) {
	const most = 50
	for i, at := range o.late {
		if i == most {
			fmt.Fprintf(b, "%s: and %d more\n", name, len(o.late)-most)
			return
		}
		fmt.Fprintf(b, "%s: %s\n", name, at)
	}
}

// latencies sends lines, so many at a time, until it is told to stop, and says how long
// each time took to its last receipt.
func (s *site) latencies(lines int, stop <-chan struct{}, say func(time.Duration)) {
	c := s.connect()
	defer c.Close()
	receipts := bufio.NewReader(c)
	for {
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
