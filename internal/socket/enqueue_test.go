package socket

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"breakwater/queue"
	"breakwater/storage/memstore"
)

// door is an Intake over the model store. What it waits for, a test brings about.
type door struct {
	*memstore.Store
	hold chan struct{} // before it stores anything, until closed; nil: no wait
	err  error         // of Stream
	full bool          // lines that find no room wait for it, until the drain
	room chan queue.Limits
	stop chan struct{} // the drain
	asks chan int      // hears how many lines each Stream had, while it has room to

	mu     sync.Mutex
	limits queue.Limits
}

func newDoor(t testing.TB) *door {
	d := &door{
		Store: memstore.New(memstore.Options{}),
		room:  make(chan queue.Limits),
		stop:  make(chan struct{}),
		asks:  make(chan int, 1000),
	}
	if _, err := d.Start(t.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *door) Stream(ctx context.Context, peer queue.Peer, lines []queue.Submission, answered func([]queue.Receipt, queue.Head)) error {
	select {
	case d.asks <- len(lines):
	default:
	}
	if d.hold != nil {
		<-d.hold
	}
	for d.err == nil {
		res, err := d.admit(ctx, peer, lines)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(res.Receipts, func(r queue.Receipt) bool { return r.Code == queue.CodeSaturated })
		if n < 0 || !d.full {
			answered(res.Receipts, res.Head)
			return nil
		}
		answered(res.Receipts[:n], res.Head)
		lines = lines[n:]
		select {
		case l := <-d.room:
			d.mu.Lock()
			d.limits = l
			d.mu.Unlock()
		case <-d.stop:
			refused := slices.Repeat([]queue.Receipt{{Status: queue.Rejected, Code: queue.CodeDraining, Error: "..."}}, len(lines))
			answered(refused, res.Head)
			return nil
		}
	}
	return d.err
}

func (d *door) admit(ctx context.Context, peer queue.Peer, lines []queue.Submission) (queue.AdmitResult, error) {
	d.mu.Lock()
	limits := d.limits
	d.mu.Unlock()
	return d.Store.Admit(ctx, queue.AdmitRequest{Now: time.Now(), Peer: peer, Limits: limits, Lines: lines})
}

func (d *door) stored(t testing.TB) uint64 {
	t.Helper()
	st, err := d.Status(context.Background(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return st.LastSeq
}

// message is a good line with the given key.
func message(key string) string {
	return fmt.Sprintf(`{"idempotency_key":%[1]q,"trace_id":"t","partition_key":%[1]q,"ledger_entity":"e","match_decision":"PARTIAL","variance_amount":"1.00"}`, key)
}

func messages(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		b.WriteString(message(fmt.Sprint("k", i)) + "\n")
	}
	return b.String()
}

func enqueueServer(t testing.TB, in Intake, o EnqueueOptions) *EnqueueServer {
	t.Helper()
	s, err := NewEnqueueServer(in, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// session is a producer's connection to a server on a real socket.
type session struct {
	*net.UnixConn
	in *bufio.Scanner
}

func enqueue(t *testing.T, d *door, o EnqueueOptions) (*session, *serving) {
	t.Helper()
	s := enqueueServer(t, d, o)
	l := serve(t, ListenOptions{}, s.handle)
	return connect(t, l), l
}

func connect(t *testing.T, l *serving) *session {
	t.Helper()
	c := dial(t, l.Addr().String()).(*net.UnixConn)
	return &session{UnixConn: c, in: bufio.NewScanner(c)}
}

func (s *session) send(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatal(err)
	}
}

// next returns the next line that the server sent.
func (s *session) next(t *testing.T) string {
	t.Helper()
	if !s.in.Scan() {
		t.Fatalf("no more lines: %v", s.in.Err())
	}
	return s.in.Text()
}

// rest half-closes and returns all that the server still sends.
func (s *session) rest(t *testing.T) (lines []string) {
	t.Helper()
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for s.in.Scan() {
		lines = append(lines, s.in.Text())
	}
	return lines
}

func TestEnqueue(t *testing.T) {
	poison := strings.Replace(message("k3"), `"1.00"`, `1.00`, 1)
	t.Run("answers each line as the contract says", func(t *testing.T) {
		d := newDoor(t)
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, message("k1")+"\n"+message("k1")+"\n"+strings.Replace(message("k1"), "1.00", "2.00", 1)+"\n"+poison+"\n"+poison+"\n")
		got := c.rest(t)
		head, err := d.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want(t, got,
			`{"line":1,"status":"accepted","seq":1,"idempotency_key":"k1"}`,
			`{"line":2,"status":"duplicate","seq":1,"idempotency_key":"k1","state":"ready"}`,
			`{"line":3,"status":"conflict","code":"IDEMPOTENCY_CONFLICT","seq":2,"of":1,"idempotency_key":"k1","error":"variance_amount differs"}`,
			`{"line":4,"status":"quarantined","code":"POISON_MESSAGE","seq":3,"field":"variance_amount","error":"must be a string, not a number"}`,
			`{"line":5,"status":"quarantined","code":"POISON_MESSAGE","seq":3,"field":"variance_amount","error":"must be a string, not a number","repeat":true}`,
			fmt.Sprintf(`{"event":"end","lines":5,"accepted":1,"duplicate":1,"conflict":1,"quarantined":2,"rejected":0,"audit":{"block":%d,"head":"%s"}}`, head.Block, head.Hash),
		)
	})
	t.Run("tolerates BOM, CR and blank lines, and numbers every line", func(t *testing.T) {
		d := newDoor(t)
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, "\ufeff\r\n"+message("k1")+"\r\n\n \t\n"+message("k2")+"\n\n")
		got := c.rest(t)
		if len(got) != 3 || !strings.HasPrefix(got[0], `{"line":2,"status":"accepted","seq":1,`) ||
			!strings.HasPrefix(got[1], `{"line":5,"status":"accepted","seq":2,`) || !strings.HasPrefix(got[2], `{"event":"end","lines":2,`) {
			t.Errorf("got %s", strings.Join(got, "\n"))
		}
		x, err := d.Exception(t.Context(), 1)
		if err != nil || string(x.Line) != message("k1") {
			t.Errorf("stored %q, %v", x.Line, err)
		}
	})
	t.Run("an empty connection ends with the head of the trail", func(t *testing.T) {
		d := newDoor(t)
		c, _ := enqueue(t, d, EnqueueOptions{})
		head, _ := d.Head(t.Context())
		want(t, c.rest(t), fmt.Sprintf(`{"event":"end","lines":0,"accepted":0,"duplicate":0,"conflict":0,"quarantined":0,"rejected":0,"audit":{"block":%d,"head":"%s"}}`, head.Block, head.Hash))
	})
	t.Run("an over-long line is quarantined and the next one is accepted", func(t *testing.T) {
		d := newDoor(t)
		c, _ := enqueue(t, d, EnqueueOptions{MaxLineBytes: 5000})
		long := strings.Repeat("x", 20000)
		c.send(t, long+"\n"+message("k1")+"\n"+long+"\n")
		got := c.rest(t)
		reason := `"code":"POISON_MESSAGE","seq":1,"error":"line of 20000 bytes is over max_line_bytes, 5000"`
		want(t, got[:3],
			`{"line":1,"status":"quarantined",`+reason+`}`,
			`{"line":2,"status":"accepted","seq":2,"idempotency_key":"k1"}`,
			`{"line":3,"status":"quarantined",`+reason+`,"repeat":true}`)
		x, err := d.Exception(t.Context(), 1)
		if err != nil || x.LineBytes != 20000 || x.LineHash != queue.LineHash([]byte(long)) || string(x.Line) != long[:longLineHead] {
			t.Errorf("stored %d bytes of %d, %v", len(x.Line), x.LineBytes, err)
		}
	})
	t.Run("all receipts arrive after a half-close", func(t *testing.T) {
		c, _ := enqueue(t, newDoor(t), EnqueueOptions{})
		c.send(t, messages(1, 500))
		got := c.rest(t)
		if len(got) != 501 {
			t.Fatalf("%d lines for 500 receipts and the end", len(got))
		}
		for i, line := range got[:500] {
			if want := fmt.Sprintf(`{"line":%d,"status":"accepted","seq":%d,"idempotency_key":"k%d"}`, i+1, i+1, i+1); line != want {
				t.Fatalf("got %s, want %s", line, want)
			}
		}
	})
	t.Run("says who sent it", func(t *testing.T) {
		d := newDoor(t)
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, message("k1")+"\n")
		c.next(t)
		var peers []queue.Peer
		err := d.Trail(t.Context(), queue.TrailQuery{}, func(r queue.Record) bool {
			if r.Event == queue.EventAccepted {
				peers = append(peers, *r.Peer)
			}
			return true
		})
		self := queue.Peer{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), PID: int32(os.Getpid())}
		if err != nil || !slices.Equal(peers, []queue.Peer{self}) {
			t.Errorf("the trail says %v, %v; want %v", peers, err, self)
		}
	})
}

// A descriptor that is passed along with a line is closed unseen: nobody can fill the
// server's table with them.
func TestPassedDescriptorsAreClosed(t *testing.T) {
	c, _ := enqueue(t, newDoor(t), EnqueueOptions{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, _, err := c.WriteMsgUnix([]byte(messages(1, 1)), unix.UnixRights(int(w.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := c.next(t); !strings.HasPrefix(got, `{"line":1,"status":"accepted"`) {
		t.Errorf("got %s", got)
	}
	// It ends only when the last descriptor of its other end is closed.
	if _, err := io.ReadAll(r); err != nil {
		t.Error(err)
	}
}

// B23: a last line without LF is stored if it is a complete object, else never.
func TestLastLine(t *testing.T) {
	poison := `{"idempotency_key":"k"}`
	tests := []struct{ name, tail, status string }{
		{"a complete message", message("k1"), "accepted"},
		{"a complete message and white space", message("k1") + " \t\r", "accepted"},
		{"a complete object that fails a gate", poison, "quarantined"},
		{"a cut-off object", message("k1")[:60], "rejected"},
		{"a complete object and more", message("k1") + "{", "rejected"},
		{"another value", "null", "rejected"},
		{"a list", "[]", "rejected"},
		{"an over-long line", `{"a":"` + strings.Repeat("x", 6000) + `"}`, "rejected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDoor(t)
			c, _ := enqueue(t, d, EnqueueOptions{MaxLineBytes: 5000})
			c.send(t, tt.tail)
			got := c.rest(t)
			if len(got) != 2 || !strings.Contains(got[0], `"status":"`+tt.status+`"`) {
				t.Fatalf("got %v", got)
			}
			rejected := tt.status == "rejected"
			if rejected != strings.Contains(got[0], `"code":"INCOMPLETE_LINE"`) || rejected == (d.stored(t) == 1) {
				t.Errorf("got %s; %d stored", got[0], d.stored(t))
			}
		})
	}
}

func TestEnqueueWhenFull(t *testing.T) {
	t.Run("a refused line is told how and when to try again", func(t *testing.T) {
		d := newDoor(t)
		d.limits.MaxBacklog = 1
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 2)+messages(1, 1))
		got := c.rest(t)
		if len(got) != 4 || !strings.HasPrefix(got[1], `{"line":2,"status":"rejected","code":"QUEUE_SATURATED","reason":"max_backlog","retry_after_ms":500,"error":"`) ||
			!strings.HasPrefix(got[2], `{"line":3,"status":"duplicate"`) {
			t.Errorf("got %s", strings.Join(got, "\n"))
		}
	})
	t.Run("what is stored is answered while the rest waits for room", func(t *testing.T) {
		d := newDoor(t)
		d.full, d.limits.MaxBacklog = true, 2
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 5))
		for i := range 2 {
			if got := c.next(t); !strings.HasPrefix(got, fmt.Sprintf(`{"line":%d,"status":"accepted"`, i+1)) {
				t.Fatalf("got %s", got)
			}
		}
		d.room <- queue.Limits{MaxBacklog: 4}
		for i := 2; i < 4; i++ {
			if got := c.next(t); !strings.HasPrefix(got, fmt.Sprintf(`{"line":%d,"status":"accepted","seq":%d,`, i+1, i+1)) {
				t.Fatalf("got %s", got)
			}
		}
		d.room <- queue.Limits{}
		if got := c.rest(t); len(got) != 2 || !strings.HasPrefix(got[1], `{"event":"end","lines":5,"accepted":5,`) {
			t.Errorf("got %s", strings.Join(got, "\n"))
		}
	})
	t.Run("after a failed commit nothing is answered", func(t *testing.T) {
		d := newDoor(t)
		d.err = fmt.Errorf("commit: %w", queue.ErrFailed)
		c, l := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 3))
		if all, err := io.ReadAll(c); len(all) != 0 {
			t.Errorf("got %q, %v", all, err)
		}
		l.cancel()
		l.wait(t)
	})
}

func TestEnqueueDrain(t *testing.T) {
	t.Run("what was read before is stored and answered", func(t *testing.T) {
		d := newDoor(t)
		d.hold = make(chan struct{})
		c, l := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 10))
		<-d.asks
		l.cancel()
		close(d.hold)
		var last string
		for c.in.Scan() {
			last = c.in.Text()
		}
		if n := d.stored(t); n == 0 || !strings.HasPrefix(last, fmt.Sprintf(`{"event":"end","lines":10,"accepted":%d,`, n)) {
			t.Errorf("%d stored, the last line is %s", n, last)
		}
		if err := l.wait(t); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Run("what waits for room is rejected", func(t *testing.T) {
		d := newDoor(t)
		d.full, d.limits.MaxBacklog = true, 1
		c, l := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 3))
		c.next(t)
		l.cancel()
		close(d.stop)
		for i := 2; i <= 3; i++ {
			if got := c.next(t); !strings.HasPrefix(got, fmt.Sprintf(`{"line":%d,"status":"rejected","code":"DRAINING","error":"`, i)) {
				t.Errorf("got %s", got)
			}
		}
		if got := c.next(t); !strings.HasPrefix(got, `{"event":"end","lines":3,"accepted":1,"duplicate":0,"conflict":0,"quarantined":0,"rejected":2,`) {
			t.Errorf("got %s", got)
		}
		if n := d.stored(t); n != 1 {
			t.Errorf("%d stored", n)
		}
	})
	t.Run("what was read before it and comes behind a rejected line is rejected", func(t *testing.T) {
		d := newDoor(t)
		d.full, d.limits.MaxBacklog = true, 1
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 2))
		c.next(t)
		close(d.stop)
		d.mu.Lock()
		d.limits = queue.Limits{} // there would be room
		d.mu.Unlock()
		c.send(t, messages(3, 4))
		for i := 2; i <= 4; i++ {
			if got := c.next(t); !strings.HasPrefix(got, fmt.Sprintf(`{"line":%d,"status":"rejected","code":"DRAINING","error":"`, i)) {
				t.Errorf("got %s", got)
			}
		}
		if n := d.stored(t); n != 1 {
			t.Errorf("%d stored", n)
		}
	})
	t.Run("what comes after it has begun is rejected", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDoor(t)
			ctx, cancel := context.WithCancel(t.Context())
			peer, done := pipeSession(ctx, enqueueServer(t, d, EnqueueOptions{}))
			in := bufio.NewScanner(peer)
			cancel()
			synctest.Wait()
			go io.WriteString(peer, messages(1, 1))
			if !in.Scan() || !strings.HasPrefix(in.Text(), `{"line":1,"status":"rejected","code":"DRAINING","error":"`) {
				t.Errorf("got %s", in.Text())
			}
			if !in.Scan() || !strings.HasPrefix(in.Text(), `{"event":"end","lines":1,`) {
				t.Errorf("got %s", in.Text())
			}
			<-done
		})
	})
	t.Run("an idle connection gets its end line", func(t *testing.T) {
		c, l := enqueue(t, newDoor(t), EnqueueOptions{})
		c.send(t, messages(1, 1)+`{"half":`)
		c.next(t)
		l.cancel()
		if got := c.next(t); !strings.HasPrefix(got, `{"event":"end","lines":1,"accepted":1,`) {
			t.Errorf("got %s", got)
		}
		if err := l.wait(t); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// B27: who never reads its receipts loses them and not its lines, and holds up nobody.
func TestProducerThatNeverReads(t *testing.T) {
	const lines = 10000
	d := newDoor(t)
	drops := make(chan struct{}, 1)
	c, l := enqueue(t, d, EnqueueOptions{
		ReceiptTimeout: 20 * time.Millisecond,
		Events: EnqueueEvents{ReceiptsDropped: func(int) {
			select {
			case drops <- struct{}{}:
			default:
			}
		}},
	})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.WriteString(c, messages(1, lines))
	}()
	other := connect(t, l)
	other.send(t, message("other")+"\n")
	if got := other.rest(t); len(got) != 2 {
		t.Errorf("another producer got %v", got)
	}
	<-sent
	<-drops // its receipts fill every buffer, so that some must be dropped
	answered, events := uint64(0), 0
	var last string
	for _, line := range c.rest(t) {
		var got struct {
			Line, From_line, To_line uint64
			Event                    string
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch {
		case got.Event == "receipts_dropped":
			events++
			answered += got.To_line - got.From_line + 1
		case got.Line > 0:
			answered++
		}
		last = line
	}
	if n := d.stored(t); n != lines+1 {
		t.Errorf("%d lines stored", n)
	}
	if answered != lines || events == 0 {
		t.Errorf("%d answered, %d events; the last line is %s", answered, events, last)
	}
}

// pipeSession runs the server's handler on one end of a pipe, inside a bubble.
func pipeSession(ctx context.Context, s *EnqueueServer) (peer net.Conn, done chan struct{}) {
	server, peer := net.Pipe()
	done = make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		s.handle(ctx, &Conn{Conn: server})
	}()
	return peer, done
}

// P6: while the store takes nothing, all connections together hold no more than the
// bound and a buffer each.
func TestIntakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, connections = 300 << 10, 8
		d := newDoor(t)
		d.hold = make(chan struct{})
		s := enqueueServer(t, d, EnqueueOptions{MaxIntakeBytes: bound})
		var taken atomic.Int64
		var peers sync.WaitGroup
		for range connections {
			peer, _ := pipeSession(t.Context(), s)
			peers.Go(func() {
				go io.Copy(io.Discard, peer)
				for i := range 5000 {
					n, _ := io.WriteString(peer, message(fmt.Sprint(i))+"\n")
					taken.Add(int64(n))
				}
				peer.Close()
			})
		}
		synctest.Wait()
		if got, most := taken.Load(), int64(bound+connections*2*chunkBuffer); got == 0 || got > most {
			t.Errorf("%d bytes taken, the bound allows %d", got, most)
		}
		close(d.hold)
		peers.Wait()
	})
}

// A reload moves the bound: more is taken at once, and where it became less than what was
// read nothing further is, until that is stored. Whatever was read is stored.
func TestIntakeBoundIsReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const small, large, lines = 16 << 10, 200 << 10, 3000
		d := newDoor(t)
		d.hold = make(chan struct{})
		s := enqueueServer(t, d, EnqueueOptions{MaxLineBytes: 1000, MaxIntakeBytes: small})
		var taken atomic.Int64
		var peers sync.WaitGroup
		for p := range 4 {
			peer, _ := pipeSession(t.Context(), s)
			peers.Go(func() {
				go io.Copy(io.Discard, peer)
				for i := range lines {
					n, _ := io.WriteString(peer, message(fmt.Sprint(p, "-", i))+"\n")
					taken.Add(int64(n))
				}
				peer.Close()
			})
		}
		reload := func(bound int64) int64 {
			t.Helper()
			if err := s.Reconfigure(EnqueueOptions{MaxLineBytes: 1000, MaxIntakeBytes: bound}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return taken.Load()
		}
		synctest.Wait()
		before := taken.Load()
		more := reload(large)
		if more <= before {
			t.Errorf("%d bytes taken with %d allowed, %d before with %d", more, large, before, small)
		}
		if less := reload(small); less != more || s.budget.used <= small {
			t.Errorf("%d bytes taken, then %d with less allowed; %d are held", more, less, s.budget.used)
		}
		close(d.hold)
		peers.Wait()
		synctest.Wait()
		if n := d.stored(t); n != 4*lines || s.budget.used != 0 {
			t.Errorf("%d lines stored of %d, %d bytes still held", n, 4*lines, s.budget.used)
		}
	})
}

// While one batch is being stored the next ones gather and share a commit.
func TestBatchesShareACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(t)
		d.hold = make(chan struct{})
		peer, done := pipeSession(t.Context(), enqueueServer(t, d, EnqueueOptions{}))
		go io.Copy(io.Discard, peer)
		for i := range 1 + queuedBatches {
			io.WriteString(peer, messages(i, i))
			synctest.Wait()
		}
		close(d.hold)
		synctest.Wait()
		if first, second := <-d.asks, <-d.asks; first != 1 || second != queuedBatches {
			t.Errorf("%d and %d lines in the first two requests", first, second)
		}
		peer.Close()
		<-done
	})
}

// Whatever comes in: each line that is not blank has one receipt, in order, and the end
// counts them.
func TestEveryLineIsAnswered(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"\n", "\r\n", " ", "null", "{}", "{", byteOrderMark, strings.Repeat("z", 300), message("k1"), message("k2") + "\n"}),
		rapid.String(),
	)
	rapid.Check(t, func(rt *rapid.T) {
		stream := strings.Join(rapid.SliceOf(piece).Draw(rt, "pieces"), "")
		checkAnswers(rt, t, []byte(stream))
	})
}

func FuzzEnqueue(f *testing.F) {
	f.Add([]byte(message("k1") + "\n" + message("k1") + "\n{}\n[\n" + message("k2")))
	f.Fuzz(func(t *testing.T, stream []byte) { checkAnswers(t, t, stream) })
}

func checkAnswers(t fataler, tb testing.TB, stream []byte) {
	t.Helper()
	const maxLine = 250
	lines, _ := model(stream, maxLine)
	server, peer := socketPair(tb)
	s := enqueueServer(tb, newDoor(tb), EnqueueOptions{MaxLineBytes: maxLine})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		s.handle(context.Background(), &Conn{Conn: server})
	}()
	go func() {
		peer.Write(stream)
		peer.(*net.UnixConn).CloseWrite()
	}()
	all, err := io.ReadAll(peer)
	<-done
	peer.Close()
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	got := bytes.SplitAfter(bytes.TrimSuffix(all, []byte("\n")), []byte("\n"))
	if len(got) != len(lines)+1 {
		t.Fatalf("%d lines, answers:\n%s", len(lines), all)
	}
	for i, l := range lines {
		var r struct{ Line uint64 }
		if err := json.Unmarshal(got[i], &r); err != nil || r.Line != l.Number {
			t.Fatalf("line %d was answered %q: %v", l.Number, got[i], err)
		}
	}
	var end struct {
		Event string
		Lines int
	}
	if err := json.Unmarshal(got[len(lines)], &end); err != nil || end.Event != "end" || end.Lines != len(lines) {
		t.Fatalf("the end is %q: %v", got[len(lines)], err)
	}
}

func TestEnqueueOptions(t *testing.T) {
	for name, o := range map[string]EnqueueOptions{
		"max_line_bytes":     {MaxLineBytes: -1},
		"max_intake_bytes":   {MaxLineBytes: 100, MaxIntakeBytes: 99},
		"receipt_timeout_ms": {ReceiptTimeout: -1},
	} {
		if _, err := NewEnqueueServer(newDoor(t), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s := enqueueServer(t, newDoor(t), EnqueueOptions{})
	if err := s.Reconfigure(EnqueueOptions{MaxLineBytes: -1}); err == nil {
		t.Error("a bad reload was taken")
	}
	if err := s.Reconfigure(EnqueueOptions{MaxLineBytes: 1000}); err != nil || s.options.Load().MaxLineBytes != 1000 {
		t.Errorf("a good reload was not taken: %v", err)
	}
}
