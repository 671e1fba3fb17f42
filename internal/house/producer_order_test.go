package house

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"breakwater/queue"
)

// TestProducer_keeps_the_order: a file of one partition key, sent while the server is
// stopped and killed in turn, is stored whole, once, and in its order (P1, P2, P5).
func TestProducer_keeps_the_order(t *testing.T) {
	t.Parallel()
	const n, stops = 30000, 6
	s := newSite(t, "")
	server := s.serve()
	cmd := exec.Command(s.binary, "--config", s.path("config.hcl"), "enqueue", "--json", "--receipts", "receipts")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := s.run(cmd)
	for part := range stops {
		var text bytes.Buffer
		for i := part * n / stops; i < (part+1)*n/stops; i++ {
			fmt.Fprintln(&text, exceptionLine("one", fmt.Sprint("k", i), ""))
		}
		go func() { // it waits while the server is away
			_, _ = in.Write(text.Bytes()) // what is missing shows in the receipts
			if part == stops-1 {
				_ = in.Close()
			}
		}()
		eventually(t, "some of the part is stored", func() bool {
			return strings.Count(s.read("receipts"), "\n") > part*n/stops+500
		})
		if part%2 == 0 {
			server.signal(syscall.SIGTERM)
			server.wait()
		} else {
			server.kill()
		}
		server = s.serve()
		eventually(t, "the part is stored", func() bool {
			return strings.Count(s.read("receipts"), "\n") >= (part+1)*n/stops
		})
	}
	if status := p.wait(); status != 0 {
		t.Fatalf("exit status %d\n%s", status, p.log.all())
	}
	var counts struct{ Lines, Accepted, Duplicate, Rejected, Resent int }
	if err := json.Unmarshal([]byte(p.out.all()), &counts); err != nil {
		t.Fatal(err)
	}
	if counts.Lines != n || counts.Accepted+counts.Duplicate != n || counts.Rejected != 0 || counts.Duplicate > counts.Resent {
		t.Errorf("%+v", counts)
	}
	t.Logf("%+v; it connected again %d times, of which %d after a rejection", counts,
		strings.Count(p.log.all(), "connecting again"), strings.Count(p.log.all(), "lines are rejected: DRAINING"))
	server.stop()
	seq := uint64(0)
	for _, r := range s.trail() {
		if r.Event != queue.EventAccepted {
			continue
		}
		if seq++; r.Seq != seq || r.IdempotencyKey != fmt.Sprint("k", seq-1) {
			t.Fatalf("seq %d is %s, want %d and k%d", r.Seq, r.IdempotencyKey, seq, seq-1)
		}
	}
	if seq != n {
		t.Errorf("%d are stored of %d", seq, n)
	}
	s.sound()
}

// TestProducer_that_does_not_wait: what waits for room when the server stops is rejected. The
// command says so with 4, and from where to go on. (How long it waits otherwise is tested
// where that costs no time: client.)
func TestProducer_that_does_not_wait(t *testing.T) {
	t.Parallel()
	s := newSite(t, "queue { max_backlog = 2 }\n")
	server := s.serve()
	var text strings.Builder
	for i := range 5 {
		fmt.Fprintln(&text, exceptionLine("one", fmt.Sprint("k", i), ""))
	}
	s.write("in.ndjson", text.String())
	p := s.start("enqueue", "--no-wait", "--receipts", "receipts", "in.ndjson")
	eventually(t, "two are stored, three wait for room", func() bool { return strings.Count(s.read("receipts"), "\n") == 2 })
	server.stop()
	if status := p.wait(); status != 4 {
		t.Errorf("exit status %d", status)
	}
	if out := p.out.all(); !strings.Contains(out, "go on from in.ndjson, line 3") || !strings.Contains(p.log.all(), "lines are rejected: DRAINING") {
		t.Errorf("it says\n%s\n%s", out, p.log.all())
	}
}
