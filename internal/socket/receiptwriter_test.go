package socket

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const testTimeout = 5 * time.Second

// receiptRig is a receiptWriter with a peer that the test plays. Inside a bubble of
// synctest the pipe between them has no buffer: the peer takes what the test reads.
type receiptRig struct {
	*receiptWriter
	peer             net.Conn
	done             chan struct{}
	stalled, dropped int
}

func newReceiptRig() *receiptRig {
	server, peer := net.Pipe()
	rig := &receiptRig{peer: peer, done: make(chan struct{})}
	rig.receiptWriter = newReceiptWriter(server, testTimeout, receiptEvents{
		stalled: func() { rig.stalled++ },
		dropped: func(n int) { rig.dropped += n },
	})
	go func() {
		defer close(rig.done)
		defer server.Close()
		rig.run()
	}()
	return rig
}

// receipts is a run of short receipts for the lines from a to b.
func receipts(a, b uint64) *receiptRun {
	var r receiptRun
	for n := a; n <= b; n++ {
		r.text = fmt.Appendf(r.text, "{\"line\":%d}\n", n)
		r.mark(n)
	}
	return &r
}

// read returns what the peer can read until the other end closes, as lines.
func (rig *receiptRig) read() []string {
	var lines []string
	for s := bufio.NewScanner(rig.peer); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

func TestReceiptWriter(t *testing.T) {
	tests := []struct {
		name string
		run  func(*testing.T, *receiptRig)
	}{
		{"sends in order and the end last", func(t *testing.T, rig *receiptRig) {
			rig.add(receipts(1, 2))
			rig.add(receipts(3, 3))
			rig.finish([]byte("end\n"))
			want(t, rig.read(), `{"line":1}`, `{"line":2}`, `{"line":3}`, "end")
			if rig.stalled+rig.dropped != 0 {
				t.Errorf("stalled %d, dropped %d", rig.stalled, rig.dropped)
			}
		}},
		{"drops for a peer that never reads, and ends after the time-out", func(t *testing.T, rig *receiptRig) {
			start := time.Now()
			rig.add(receipts(1, 10))
			rig.finish([]byte("end\n"))
			<-rig.done
			if got := time.Since(start); got != 2*testTimeout {
				t.Errorf("took %v, want one time-out to fall behind and one to give up", got)
			}
			if rig.dropped != 10 {
				t.Errorf("dropped %d of 10", rig.dropped)
			}
		}},
		{"one event stands for all that a peer missed", func(t *testing.T, rig *receiptRig) {
			rig.add(receipts(1, 3))
			pass(testTimeout)
			synctest.Wait() // it has fallen behind
			rig.add(receipts(4, 9))
			go func() {
				// More is missed until the peer has begun to read, nothing after.
				synctest.Wait()
				rig.finish([]byte("end\n"))
			}()
			want(t, rig.read(), `{"event":"receipts_dropped","from_line":1,"to_line":9}`, "end")
			if rig.stalled != 1 || rig.dropped != 9 {
				t.Errorf("stalled %d, dropped %d", rig.stalled, rig.dropped)
			}
		}},
		{"a receipt that was begun is finished before the event", func(t *testing.T, rig *receiptRig) {
			rig.add(receipts(1, 3))
			begun := make([]byte, len(`{"line":1}`)+len("\n{\"l"))
			if _, err := rig.peer.Read(begun); err != nil {
				t.Fatal(err)
			}
			pass(3 * testTimeout)
			synctest.Wait()
			rig.finish([]byte("end\n"))
			want(t, rig.read(), `ine":2}`, `{"event":"receipts_dropped","from_line":3,"to_line":3}`, "end")
		}},
		{"after the event receipts go on", func(t *testing.T, rig *receiptRig) {
			rig.add(receipts(1, 1))
			pass(2 * testTimeout)
			synctest.Wait()
			first := make([]byte, 1)
			if _, err := rig.peer.Read(first); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the event's numbers are fixed
			rig.add(receipts(2, 3))
			rig.finish([]byte("end\n"))
			want(t, rig.read(), `"event":"receipts_dropped","from_line":1,"to_line":1}`, `{"line":2}`, `{"line":3}`, "end")
		}},
		{"a peer that only just reads loses nothing", func(t *testing.T, rig *receiptRig) {
			rig.add(receipts(1, 1))
			var got strings.Builder
			for range len(`{"line":1}`) {
				pass(testTimeout - 1)
				b := make([]byte, 1)
				if _, err := rig.peer.Read(b); err != nil {
					t.Fatal(err)
				}
				got.Write(b)
			}
			rig.finish([]byte("end\n"))
			want(t, append([]string{got.String()}, rig.read()...), `{"line":1}`, "", "end")
			if rig.stalled != 0 {
				t.Error("fell behind")
			}
		}},
		{"a peer that is gone costs nothing more", func(t *testing.T, rig *receiptRig) {
			rig.peer.Close()
			rig.add(receipts(1, 5))
			synctest.Wait()
			rig.add(receipts(6, 9))
			rig.waitForRoom(t.Context())
			rig.finish([]byte("end\n"))
			<-rig.done
			if rig.dropped != 9 {
				t.Errorf("dropped %d of 9", rig.dropped)
			}
		}},
		{"no room while too much is unsent, room again once it is dropped", func(t *testing.T, rig *receiptRig) {
			big := &receiptRun{text: make([]byte, receiptLimit)}
			big.mark(1)
			rig.add(big)
			synctest.Wait() // run has taken it
			rig.add(big)
			start := time.Now()
			rig.waitForRoom(t.Context())
			if got := time.Since(start); got != testTimeout {
				t.Errorf("waited %v, want %v", got, testTimeout)
			}
			rig.peer.Close()
			rig.finish(nil)
			<-rig.done
		}},
		{"the wait for room ends with its context", func(t *testing.T, rig *receiptRig) {
			big := &receiptRun{text: make([]byte, receiptLimit)}
			big.mark(1)
			rig.add(big)
			synctest.Wait()
			rig.add(big)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			rig.waitForRoom(ctx)
			rig.peer.Close()
			rig.finish(nil)
			<-rig.done
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rig := newReceiptRig()
				defer rig.peer.Close()
				tt.run(t, rig)
				<-rig.done
			})
		})
	}
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However the peer reads, what it gets is whole lines in order, and every line of its
// own is either answered or stood for by an event.
func TestReceiptWriterAccountsForEveryLine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		batches := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 8).Draw(rt, "batches")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 3), len(batches), len(batches)).Draw(rt, "pauses before adding")
		reads := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 8).Draw(rt, "bytes read")
		naps := rapid.SliceOfN(rapid.IntRange(0, 3), len(reads), len(reads)).Draw(rt, "pauses before reading")
		synctest.Test(t, func(*testing.T) {
			rig := newReceiptRig()
			last := uint64(0)
			go func() {
				for i, n := range batches {
					pass(time.Duration(pauses[i]) * testTimeout * 2 / 3)
					rig.add(receipts(last+1, last+uint64(n)))
					last += uint64(n)
				}
				rig.finish([]byte("{\"event\":\"end\"}\n"))
			}()
			var text strings.Builder
			for i := 0; ; i++ {
				if i < len(naps) {
					pass(time.Duration(naps[i]) * testTimeout * 2 / 3)
				}
				p := make([]byte, reads[i%len(reads)])
				n, err := rig.peer.Read(p)
				text.Write(p[:n])
				if err != nil {
					break
				}
			}
			<-rig.done
			checkAccount(rt, text.String(), last)
		})
	})
}

// checkAccount reads what a peer got and sees to it that it accounts for the lines from
// 1 to last in order, up to where the writer gave the peer up.
func checkAccount(t *rapid.T, text string, last uint64) {
	next := uint64(1)
	ended := false
	for l := range strings.Lines(text) {
		var got struct {
			Line  uint64 `json:"line"`
			From  uint64 `json:"from_line"`
			To    uint64 `json:"to_line"`
			Event string `json:"event"`
		}
		if !strings.HasSuffix(l, "\n") {
			return // cut off: the peer was given up
		}
		if err := json.Unmarshal([]byte(l), &got); err != nil || ended {
			t.Fatalf("line %q: %v\nin %s", l, err, text)
		}
		switch {
		case got.Event == "end":
			ended = true
			if next != last+1 {
				t.Fatalf("the end came at line %d of %d:\n%s", next, last, text)
			}
		case got.Event == "receipts_dropped" && got.From == next && got.To >= next:
			next = got.To + 1
		case got.Line == next:
			next++
		default:
			t.Fatalf("line %q where %d was next:\n%s", l, next, text)
		}
	}
}

// A Unix socket buffers, a pipe does not: the same promise on the real thing. The peer
// reads nothing until the writer has fallen behind.
func TestReceiptWriterOnARealSocket(t *testing.T) {
	server, peer := socketPair(t)
	behind := make(chan struct{}, 100)
	w := newReceiptWriter(server, 20*time.Millisecond, receiptEvents{
		stalled: func() { behind <- struct{}{} },
		dropped: func(int) {},
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		w.run()
	}()
	var next uint64 = 1
	for full := false; !full; {
		w.waitForRoom(t.Context())
		w.add(receipts(next, next+999))
		next += 1000
		select {
		case <-behind:
			full = true
		default:
		}
	}
	var events, answered uint64
	s := bufio.NewScanner(peer)
	for s.Scan() {
		var got struct {
			Line  uint64 `json:"line"`
			From  uint64 `json:"from_line"`
			To    uint64 `json:"to_line"`
			Event string `json:"event"`
		}
		if err := json.Unmarshal(s.Bytes(), &got); err != nil {
			t.Fatalf("line %q: %v", s.Text(), err)
		}
		if got.Event == "receipts_dropped" {
			events++
			answered += got.To - got.From + 1
			w.finish([]byte("{}\n")) // the peer has read all, so this is taken at once
		} else if got.Line > 0 {
			answered++
		}
	}
	<-done
	if events != 1 || answered != next-1 {
		t.Errorf("%d events; %d of %d lines accounted for", events, answered, next-1)
	}
}
