package client

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/queue"
)

// TestOtherSocket: a path that leads to another socket of breakwater's is an error at once,
// and nothing is left there.
func TestOtherSocket(t *testing.T) {
	s := newServer(t)
	speaksHTTP := filepath.Join(filepath.Dir(s.path), "h.sock")
	l, err := net.Listen("unix", speaksHTTP)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			s, err := meets(t, l)
			if err != nil {
				return // the test is over
			}
			_, _ = s.in.ReadString('\n')
			s.says("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r")
			_ = s.Close()
		}
	}()
	defer func() { _ = l.Close(); <-served }()
	tried := func(err error, _ time.Duration) { t.Errorf("it is tried again after %v", err) }
	line := `{"idempotency_key":"k","trace_id":"t","partition_key":"p","ledger_entity":"e","match_decision":"PARTIAL","variance_amount":"1.00"}`
	for path, what := range map[string]string{s.enqueue(): "is the enqueue socket", speaksHTTP: "is the control socket"} {
		c := &Consumer{Path: path, Name: "robot", Waiting: tried}
		if err := c.Run(t.Context(), nil); !errors.Is(err, ErrOtherSocket) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, what := range map[string]string{s.path: "is the consume socket", speaksHTTP: "is the control socket"} {
		p := &Producer{Path: path, Waiting: tried}
		if r, err := p.Send(t.Context(), strings.NewReader(line+"\n"+line)); !errors.Is(err, ErrOtherSocket) || !strings.Contains(err.Error(), what) || r.Lines > 0 {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	if st := s.status(); st.LastSeq > 0 || len(s.records(queue.EventAttached)) > 0 {
		t.Errorf("%+v", st)
	}
}

// TestOtherSocket_that_cannot_be_seen: an enqueue socket that does not show what it is
// keeps the attachment as a dead letter; the error names it.
func TestOtherSocket_that_cannot_be_seen(t *testing.T) {
	for answer, want := range map[string]string{
		`{"line":1,"status":"quarantined","code":"POISON_MESSAGE","seq":7,"field":"idempotency_key","error":"is missing"}`: "dlq discard 7",
		`{"line":1,"status":"rejected","code":"QUEUE_SATURATED","error":"no room"}`:                                        "has rejected it",
	} {
		path := filepath.Join(t.TempDir(), "e.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s, err := meets(t, l) // who only looks is not answered
			if err != nil {
				t.Error(err)
				return
			}
			s.wants(`{"attach":`)
			s.says(answer)
			_ = s.Close()
		}()
		c := &Consumer{Path: path, Name: "robot"}
		if _, err := c.Attach(t.Context()); !errors.Is(err, ErrOtherSocket) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
		_ = l.Close()
		<-ended
	}
}
