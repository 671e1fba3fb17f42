package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// talk is what a scripted enqueue socket answers on one connection: a word for each line
// that it reads, then the end line, or none if the last word is "gone".
type talk []string

// talks listens and plays one talk after the other; then nobody listens any more. heard
// has the lines of each connection.
func talks(t *testing.T, parts ...talk) (path string, heard func() [][]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "e.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan [][]string, 1)
	go func() {
		var all [][]string
		for i, part := range parts {
			s, err := meets(t, l)
			if err != nil {
				break // the test is over
			}
			if i == len(parts)-1 {
				_ = l.Close()
			}
			all = append(all, s.plays(part))
			_ = s.Close()
		}
		ended <- all
	}()
	t.Cleanup(func() { _ = l.Close() })
	return path, func() [][]string { _ = l.Close(); return <-ended }
}

// plays reads a line for each word, then answers them, so that all are on their way when
// the first is. Lines beyond the words are read and not answered.
func (s scripted) plays(words talk) (lines []string) {
	gone := words[len(words)-1] == "gone"
	if gone {
		words = words[:len(words)-1]
	}
	read := func() bool {
		line, err := s.in.ReadString('\n')
		if err == nil {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
		return err == nil
	}
	for len(lines) < max(len(words), 1) && read() {
	}
	for i, word := range words[:min(len(words), len(lines))] {
		s.says(answerOf(i+1, word))
	}
	if gone {
		return lines
	}
	for read() {
	}
	s.says(`{"event":"end","audit":{"block":1,"head":"h"}}`)
	return lines
}

// answerOf is the receipt for line n that a word stands for.
func answerOf(n int, word string) string {
	switch word {
	case "accepted", "duplicate":
		return fmt.Sprintf(`{"line":%d,"status":%q,"seq":%d,"idempotency_key":"k"}`, n, word, n)
	case "QUEUE_SATURATED":
		return fmt.Sprintf(`{"line":%d,"status":"rejected","code":%q,"reason":"max_backlog","retry_after_ms":700,"error":"no room"}`, n, word)
	case "later": // than anybody waits
		return fmt.Sprintf(`{"line":%d,"status":"rejected","code":"QUEUE_SATURATED","retry_after_ms":3600000,"error":"no room"}`, n)
	}
	return fmt.Sprintf(`{"line":%d,"status":"rejected","code":%q,"error":"not now"}`, n, word)
}

// sending is a Producer whose pauses cost no time, and what it told.
type sending struct {
	Producer
	receipts []string // LINE STATUS CODE
	waits    []time.Duration
	why      []error
	res      Result
	err      error
}

// sends has text sent to path.
func sends(t *testing.T, path string, noWait bool, text string) *sending {
	t.Helper()
	s := &sending{Producer: Producer{Path: path, NoWait: noWait}}
	s.Receipt = func(line []byte) error {
		var r receipt
		if err := json.Unmarshal(line, &r); err != nil || !strings.HasSuffix(string(line), "}\n") {
			t.Errorf("receipt %q: %v", line, err)
		}
		s.receipts = append(s.receipts, strings.TrimSpace(fmt.Sprint(r.Line, " ", r.Status, " ", r.Code)))
		return nil
	}
	s.Waiting = func(err error, after time.Duration) { s.why, s.waits = append(s.why, err), append(s.waits, after) }
	synctest.Test(t, func(t *testing.T) { s.res, s.err = s.Send(context.Background(), strings.NewReader(text)) })
	return s
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestProducer_rejected: a line that is rejected is taken like a lost connection. Nothing
// behind it is ahead of it afterwards, whatever the server has said of it.
func TestProducer_rejected(t *testing.T) {
	for _, code := range []string{"DRAINING", "STORAGE_UNAVAILABLE", "QUEUE_SATURATED", "INCOMPLETE_LINE", "later"} {
		t.Run(code, func(t *testing.T) {
			path, heard := talks(t, talk{"accepted", code, code, "accepted", "DRAINING"}, talk{"accepted", "accepted", "duplicate", "accepted"})
			s := sends(t, path, false, "1\n2\n3\n4\n5\n")
			same(t, "heard", heard(), [][]string{{"1", "2", "3", "4", "5"}, {"2", "3", "4", "5"}})
			same(t, "receipts", s.receipts, []string{"1 accepted", "2 accepted", "3 accepted", "4 duplicate", "5 accepted"})
			same(t, "counts", s.res.Counts, Counts{Lines: 5, Accepted: 4, Duplicate: 1, Resent: 1})
			if s.err != nil || s.res.Next != nil || s.res.Audit == nil || len(s.why) != 1 || !errors.Is(s.why[0], ErrRejected) {
				t.Errorf("%+v, %v; told %v", s.res, s.err, s.why)
			}
			want := map[string]time.Duration{"QUEUE_SATURATED": 700 * time.Millisecond, "later": longestRetry}[code]
			if s.waits[0] != max(want, firstRetry) {
				t.Errorf("it waited for %v", s.waits[0])
			}
		})
	}
	t.Run("it sends no more of the input", func(t *testing.T) {
		path, heard := talks(t, talk{"DRAINING"}, talk{"accepted", "accepted"})
		in, out := io.Pipe()
		defer out.Close()
		p := Producer{Path: path, Waiting: func(error, time.Duration) {
			_, _ = io.WriteString(out, "2\n")
			_ = out.Close()
		}}
		go func() { _, _ = io.WriteString(out, "1\n") }()
		if res, err := p.Send(t.Context(), in); err != nil || res.Accepted != 2 {
			t.Errorf("%+v, %v", res, err)
		}
		same(t, "heard", heard(), [][]string{{"1"}, {"1", "2"}})
	})
	t.Run("without waiting it ends at once", func(t *testing.T) {
		path, heard := talks(t, talk{"accepted", "QUEUE_SATURATED", "duplicate", "QUEUE_SATURATED"})
		s := sends(t, path, true, "1\n2\n3\n4\n")
		heard()
		same(t, "receipts", s.receipts, []string{"1 accepted", "2 rejected QUEUE_SATURATED", "4 rejected QUEUE_SATURATED"})
		same(t, "counts", s.res.Counts, Counts{Lines: 3, Accepted: 1, Rejected: 2})
		if !errors.Is(s.err, ErrRejected) || errors.Is(s.err, ErrLost) || *s.res.Next != (Position{Line: 2}) || len(s.why) > 0 {
			t.Errorf("%+v, %v", s.res, s.err)
		}
	})
}

// TestProducer_gives_up_what_is_rejected: after as many tries as for a lost connection, and
// it says what is stored nowhere.
func TestProducer_gives_up_what_is_rejected(t *testing.T) {
	total := func(waits []time.Duration) (sum time.Duration) {
		for _, w := range waits {
			sum += w
		}
		return sum
	}
	t.Run("a server that stops and stays away", func(t *testing.T) {
		path, heard := talks(t, talk{"accepted", "DRAINING", "DRAINING"})
		s := sends(t, path, false, "1\n\n2\n3\n4\n")
		heard()
		same(t, "receipts", s.receipts, []string{"1 accepted", "3 rejected DRAINING", "4 rejected DRAINING"})
		same(t, "counts", s.res.Counts, Counts{Lines: 3, Accepted: 1, Rejected: 2})
		if !errors.Is(s.err, ErrRejected) || !errors.Is(s.err, ErrLost) || *s.res.Next != (Position{Line: 3}) {
			t.Errorf("%+v, %v", s.res, s.err)
		}
		if sum := total(s.waits); len(s.waits) != maxReconnects || sum < 70*time.Second || sum > 80*time.Second {
			t.Errorf("%d tries in %v", len(s.waits), sum)
		}
	})
	t.Run("a server that rejects for ever", func(t *testing.T) {
		parts := make([]talk, 0, maxReconnects+2)
		parts = append(parts, talk{"accepted", "STORAGE_UNAVAILABLE"})
		for range maxReconnects {
			parts = append(parts, talk{"STORAGE_UNAVAILABLE"})
		}
		path, heard := talks(t, parts...)
		s := sends(t, path, false, "1\n2\n")
		same(t, "the last", heard()[maxReconnects], []string{"2"})
		same(t, "receipts", s.receipts, []string{"1 accepted", "2 rejected STORAGE_UNAVAILABLE"})
		if !errors.Is(s.err, ErrRejected) || errors.Is(s.err, ErrLost) || *s.res.Next != (Position{Line: 2}) {
			t.Errorf("%+v, %v", s.res, s.err)
		}
	})
	t.Run("what is settled in between begins the count anew", func(t *testing.T) {
		parts := []talk{}
		for range 3 * maxReconnects {
			parts = append(parts, talk{"accepted", "DRAINING"})
		}
		path, heard := talks(t, parts...)
		s := sends(t, path, false, strings.Repeat("x\n", 3*maxReconnects))
		heard()
		if s.err != nil || s.res.Accepted != 3*maxReconnects {
			t.Errorf("%+v, %v", s.res, s.err)
		}
	})
	t.Run("what was lost after it was rejected may be stored", func(t *testing.T) {
		path, heard := talks(t, talk{"QUEUE_SATURATED"}, talk{"gone"})
		s := sends(t, path, false, "1\n")
		heard()
		if len(s.receipts) > 0 || errors.Is(s.err, ErrRejected) || !errors.Is(s.err, ErrLost) || *s.res.Next != (Position{Line: 1}) {
			t.Errorf("%+v, %v; receipts %v", s.res, s.err, s.receipts)
		}
	})
	t.Run("what was rejected before the connection was lost is stored nowhere", func(t *testing.T) {
		path, heard := talks(t, talk{"DRAINING", "gone"})
		s := sends(t, path, false, "1\n2\n")
		heard()
		same(t, "receipts", s.receipts, []string{"1 rejected DRAINING"})
		if !errors.Is(s.err, ErrRejected) {
			t.Errorf("%+v, %v", s.res, s.err)
		}
	})
}

// named is an input with a name.
type named struct {
	io.Reader
	name string
}

// Name returns it.
func (n named) Name() string { return n.name }

// broken is an input that cannot be read any further.
type broken struct{}

// Read fails.
func (broken) Read([]byte) (int, error) { return 0, errors.New("it is broken") }

// TestProducer_inputs: several inputs are one, but each begins and ends by itself.
func TestProducer_inputs(t *testing.T) {
	text := func(name, text string) io.Reader { return named{strings.NewReader(text), name} }
	send := func(t *testing.T, path string, inputs ...io.Reader) (receipts []string, res Result, err error) {
		p := Producer{Path: path, Receipt: func(line []byte) error {
			var r receipt
			err := json.Unmarshal(line, &r)
			receipts = append(receipts, strings.TrimSpace(fmt.Sprint(r.Line, " ", r.Status, " ", r.Code)))
			return err
		}}
		res, err = p.Send(t.Context(), inputs...)
		return receipts, res, err
	}
	t.Run("the last line of each needs no end", func(t *testing.T) {
		path, heard := talks(t, talk{"accepted", "accepted", "accepted", "accepted", "accepted", "accepted"})
		receipts, res, err := send(t, path, text("a", "{\"a\":1}\n\n{\"a\":2}"), text("b", "\ufeff{\"b\":1}\r\n \t{\"b\":2}\r"), text("", ""), text("c", "\ufeff\n{\"c\":1}\n"))
		same(t, "heard", heard(), [][]string{{`{"a":1}`, `{"a":2}`, "{\"b\":1}\r", " \t{\"b\":2}\r", `{"c":1}`}})
		same(t, "receipts", receipts, []string{"1 accepted", "3 accepted", "4 accepted", "5 accepted", "7 accepted"})
		if err != nil || res.Incomplete != nil || res.Accepted != 5 {
			t.Errorf("%+v, %v", res, err)
		}
	})
	t.Run("what is cut off is not sent, wherever it stands", func(t *testing.T) {
		path, heard := talks(t, talk{"accepted", "accepted"})
		receipts, res, err := send(t, path, text("a", "{\"a\":1}\n{\"a\":"), text("b", "b"), text("c", "{\"c\":1}\n"), text("", `{"d":1} {`))
		same(t, "heard", heard(), [][]string{{`{"a":1}`, `{"c":1}`}})
		same(t, "receipts", receipts, []string{"1 accepted", "2 rejected INCOMPLETE_LINE", "3 rejected INCOMPLETE_LINE", "4 accepted", "5 rejected INCOMPLETE_LINE"})
		same(t, "cut off", res.Incomplete, []Position{{"a", 2}, {"b", 1}, {"", 1}})
		same(t, "counts", res.Counts, Counts{Lines: 5, Accepted: 2, Rejected: 3})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("what is cut off keeps its place behind what is rejected", func(t *testing.T) {
		path, heard := talks(t, talk{"DRAINING", "DRAINING"}, talk{"accepted", "accepted"})
		receipts, res, err := send(t, path, text("a", "{\"a\":1}\ncut"), text("b", "{\"b\":1}\n"))
		same(t, "heard", heard(), [][]string{{`{"a":1}`, `{"b":1}`}, {`{"a":1}`, `{"b":1}`}})
		same(t, "receipts", receipts, []string{"1 accepted", "2 rejected INCOMPLETE_LINE", "3 accepted"})
		if err != nil || res.Rejected != 1 {
			t.Errorf("%+v, %v", res, err)
		}
	})
	t.Run("what can be read is stored when the rest cannot", func(t *testing.T) {
		path, heard := talks(t, talk{"DRAINING"}, talk{"accepted", "accepted"})
		receipts, res, err := send(t, path, text("a", "1\n2\n"), named{io.MultiReader(strings.NewReader("half a line"), broken{}), "b"}, text("c", "3\n"))
		same(t, "heard", heard()[1], []string{"1", "2"})
		same(t, "receipts", receipts, []string{"1 accepted", "2 accepted"})
		if err == nil || err.Error() != "read b, line 1: it is broken" || *res.Next != (Position{"b", 1}) {
			t.Errorf("%+v, %v", res, err)
		}
	})
	t.Run("a line that is too long is named", func(t *testing.T) {
		path, heard := talks(t, talk{"accepted"})
		_, res, err := send(t, path, text("a", "1\n"+strings.Repeat("x", MaxLine+2)))
		heard()
		if !errors.Is(err, ErrLongLine) || !strings.Contains(err.Error(), "read a, line 2: ") || res.Accepted != 1 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}
