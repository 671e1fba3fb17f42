package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/internal/control"
	"breakwater/internal/control/api"
	"breakwater/queue"
	"breakwater/storage/memstore"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// socketPath is a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "c.sock")
}

// serveStore runs a control server over a store in memory, with n exceptions of which
// those with an even number are dead letters.
func serveStore(t *testing.T, n int) *Control {
	t.Helper()
	store := memstore.New(memstore.Options{})
	if _, err := store.Start(t.Context(), queue.StartRequest{Now: start, Version: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	var lines []queue.Submission
	for i := range n {
		line := fmt.Appendf(nil, `{"idempotency_key":"k%d","trace_id":"t","partition_key":"p%d","ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"1"}`, i+1, i%10)
		m, err := queue.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		s := queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)}
		if i%2 == 1 {
			s.Fault = &queue.Fault{Field: "currency", Reason: "none"}
		}
		lines = append(lines, s)
	}
	if _, err := store.Admit(t.Context(), queue.AdmitRequest{Now: start, Lines: lines}); err != nil {
		t.Fatal(err)
	}
	server, err := control.New(control.Options{Store: store, Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	c := NewControl(path)
	t.Cleanup(c.Close)
	return c
}

func TestControl(t *testing.T) {
	const n = 2*api.MaxLimit + 600 // three pages of the list, two of the dead letters
	c := serveStore(t, n)
	ctx := t.Context()

	t.Run("a_list_is_read_to_its_end", func(t *testing.T) {
		var last uint64
		count := 0
		for x, err := range c.DeadLetters(ctx, Letters{}) {
			if err != nil {
				t.Fatal(err)
			}
			if x.Seq != last+2 || x.Line != "" {
				t.Fatalf("seq %d after %d, line %q", x.Seq, last, x.Line)
			}
			last = x.Seq
			count++
		}
		if count != n/2 {
			t.Errorf("%d dead letters, want %d", count, n/2)
		}
	})
	t.Run("a_list_may_be_left_early", func(t *testing.T) {
		for x, err := range c.DeadLetters(ctx, Letters{PartitionKey: "p3", Lines: true}) {
			if err != nil || x.Seq != 4 || !strings.Contains(x.Line, `"k4"`) {
				t.Fatalf("%+v, %v", x, err)
			}
			break
		}
	})
	t.Run("what_is_not_there_is_a_problem_with_a_code", func(t *testing.T) {
		_, err := c.Exception(ctx, n+1)
		var p *Problem
		if !errors.As(err, &p) || p.Code != string(queue.CodeNotFound) || p.Status != http.StatusNotFound || p.Error() == "" {
			t.Errorf("%v", err)
		}
		for _, err := range c.DeadLetters(ctx, Letters{Code: "\x00"}) {
			if err != nil {
				t.Error(err) // an odd code selects nothing
			}
		}
		if _, err := c.Discard(ctx, api.LettersAct{Seqs: []uint64{2}}); !errors.As(err, &p) || p.Code != string(queue.CodeUsage) {
			t.Errorf("a discard without a reason: %v", err)
		}
	})
	t.Run("records_are_streamed_as_they_are", func(t *testing.T) {
		count := 0
		for line, err := range c.Records(ctx, queue.TrailQuery{Seq: 3}) {
			if err != nil {
				t.Fatal(err)
			}
			r, err := queue.ParseRecord(line)
			if err != nil || r.Seq != 3 || r.Event != queue.EventAccepted {
				t.Errorf("%s: %v", line, err)
			}
			count++
		}
		if count != 1 {
			t.Errorf("%d records, want 1", count)
		}
		for _, err := range c.Records(ctx, queue.TrailQuery{Since: start.Add(time.Hour), Event: queue.EventAccepted, PartitionKey: "p0"}) {
			t.Errorf("a record of later: %v", err)
		}
	})
	t.Run("verbs_reach_the_store", func(t *testing.T) {
		paused, err := c.Pause(ctx, api.Act{By: "alice", Reason: "why"})
		if err != nil || paused.Paused == nil || paused.Paused.By != "alice" {
			t.Errorf("%+v, %v", paused, err)
		}
		if resumed, err := c.Resume(ctx, api.Act{}); err != nil || resumed.Paused != nil {
			t.Errorf("%+v, %v", resumed, err)
		}
		if k, err := c.HoldKeys(ctx, api.KeysAct{Keys: []string{"p\n1"}}); err != nil || k.Matched != 1 {
			t.Errorf("%+v, %v", k, err)
		}
		if k, err := c.ReleaseKeys(ctx, api.KeysAct{Keys: []string{"p\n1", "p2"}}); err != nil || k.Matched != 1 || k.Failed != 1 {
			t.Errorf("%+v, %v", k, err)
		}
		if v, err := c.Verify(ctx, api.VerifyAct{}); err != nil || !v.Sound || v.Records == 0 {
			t.Errorf("%+v, %v", v, err)
		}
		if st, err := c.Status(ctx); err != nil || st.Dead != n/2 || st.Version != "1.2.3" {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// strange serves what no breakwater would answer.
func strange(t *testing.T, answer http.HandlerFunc) *Control {
	t.Helper()
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answer}
	go func() { _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	c := NewControl(path)
	t.Cleanup(c.Close)
	return c
}

func TestControl_strange_answers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a_redirect_is_not_followed":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/v1/status", http.StatusFound) },
		"an_error_of_another_program": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
		"a_document_that_is_cut":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"ready":`) },
		"a_problem_without_an_end": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			for range 2*maxTrouble/1024 + 1 {
				_, _ = io.WriteString(w, strings.Repeat(" ", 1024))
			}
		},
		"nothing": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := strange(t, answer).Status(t.Context())
			var p *Problem
			if err == nil || errors.As(err, &p) || errors.Is(err, ErrNobody) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("a_stream_that_is_cut_is_an_error", func(t *testing.T) {
		c := strange(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{\"n\":1}\n{\"n\":")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		whole := 0
		var last error
		for _, err := range c.Records(t.Context(), queue.TrailQuery{}) {
			if last = err; err == nil {
				whole++
			}
		}
		if whole != 1 || last == nil {
			t.Errorf("%d whole records, then %v", whole, last)
		}
	})
	t.Run("a_list_that_stands_still_ends", func(t *testing.T) {
		c := strange(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"seq":1}],"next":"1"}`)
		})
		n := 0
		var last error
		for _, err := range c.DeadLetters(t.Context(), Letters{}) {
			n++
			last = err
		}
		if n != 3 || last == nil {
			t.Errorf("%d elements, then %v", n, last)
		}
	})
	t.Run("what_is_not_UTF-8_is_not_sent", func(t *testing.T) {
		asked := 0
		c := strange(t, func(w http.ResponseWriter, _ *http.Request) { asked++; _, _ = io.WriteString(w, "{}") })
		_, edited := c.Edit(t.Context(), api.EditAct{Seq: 1, Line: "{\"a\":\"\xff\"}"})
		_, held := c.HoldKeys(t.Context(), api.KeysAct{Keys: []string{"K", "K\xff"}})
		_, paused := c.Pause(t.Context(), api.Act{By: "a\xff"})
		_, verified := c.Verify(t.Context(), api.VerifyAct{Witnesses: []api.Witness{{Head: "00"}, {Head: "\xff"}}})
		for name, err := range map[string]error{"line": edited, "keys": held, "by": paused, "head": verified} {
			if asked > 0 || !errors.Is(err, ErrNotText) || !strings.Contains(err.Error(), name+" is not UTF-8") {
				t.Errorf("%s, %d requests: %v", name, asked, err)
			}
		}
		if _, err := c.Edit(t.Context(), api.EditAct{Seq: 1, Line: "\ufffd"}); asked != 1 || err != nil {
			t.Errorf("a replacement character of the sender's own: %d requests, %v", asked, err)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		_, err := NewControl(socketPath(t)).Status(t.Context())
		if !errors.Is(err, ErrNobody) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	})
}

// TestControl_of_another_socket: a request that is sent to the wrong socket is an error
// that says so; the enqueue socket, which would store it, is not sent it.
func TestControl_of_another_socket(t *testing.T) {
	for _, c := range []struct{ name, probed, asked, want string }{
		{"enqueue", `{"event":"end","lines":0}`, "", "is the enqueue socket"},
		{"enqueue, which does not show it", "", `{"line":1,"status":"quarantined","seq":1}`, `does not speak HTTP: "{\"line\":1`},
		{"consume", "", `{"event":"error","code":"USAGE"}`, "does not speak HTTP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := socketPath(t)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			asked := make(chan bool, 8)
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return // the test is over
					}
					n, _ := conn.Read(make([]byte, 1))
					answer := c.probed
					if n > 0 {
						asked <- true
						answer = c.asked
					}
					_, _ = io.WriteString(conn, answer+"\n")
					_ = conn.Close()
				}
			}()
			control := NewControl(path)
			defer control.Close()
			for range 2 { // it does not get used to it
				_, err := control.Status(t.Context())
				if !errors.Is(err, ErrOtherSocket) || errors.Is(err, ErrNobody) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v", err)
				}
			}
			if got := len(asked) > 0; got != (c.asked != "") {
				t.Errorf("asked %v", got)
			}
		})
	}
}
