package socket

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"breakwater/queue"
)

// acceptAll is an Intake without a store: what is left is the cost of the edge.
type acceptAll struct {
	seq      uint64
	receipts []queue.Receipt
}

func (a *acceptAll) Stream(_ context.Context, _ queue.Peer, lines []queue.Submission, answered func([]queue.Receipt, queue.Head)) error {
	a.receipts = a.receipts[:0]
	for range lines {
		a.seq++
		a.receipts = append(a.receipts, queue.Receipt{Status: queue.Accepted, Seq: a.seq})
	}
	answered(a.receipts, queue.Head{})
	return nil
}

func (a *acceptAll) Head(context.Context) (queue.Head, error) { return queue.Head{}, nil }

// BenchmarkEnqueue sends lines of 350 bytes over one real socket and reads their
// receipts: reading, judging, hashing, answering, but no store.
func BenchmarkEnqueue(b *testing.B) {
	server, peer := socketPair(b)
	s := enqueueServer(b, new(acceptAll), EnqueueOptions{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		s.handle(context.Background(), &Conn{Conn: server})
	}()
	text := strings.Replace(message("k"), "{", fmt.Sprintf(`{"pad":%q,`, strings.Repeat("x", 350-len(message("k"))-10)), 1) + "\n"
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	b.ResetTimer()
	go func() {
		w := bufio.NewWriterSize(peer, 64<<10)
		for range b.N {
			w.WriteString(text)
		}
		w.Flush()
		peer.(*net.UnixConn).CloseWrite()
	}()
	if _, err := io.Copy(io.Discard, peer); err != nil {
		b.Fatal(err)
	}
	<-done
}
