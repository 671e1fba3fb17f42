package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestProducer_goes_on_after_a_server_that_stops has a server end its connection, in
// good order, while the producer still waits for more to send.
func TestProducer_goes_on_after_a_server_that_stops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "enqueue.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	serve := func(stop bool) {
		c, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		defer c.Close()
		in, lines := bufio.NewReader(c), 0
		for !stop {
			if _, err := in.ReadString('\n'); err != nil {
				break
			}
			lines++
			fmt.Fprintf(c, `{"line":%d,"status":"accepted"}`+"\n", lines)
		}
		fmt.Fprintf(c, `{"event":"end","audit":{"block":%d,"head":"h"}}`+"\n", lines)
	}
	in, out := io.Pipe()
	go func() {
		serve(true)
		serve(false)
	}()
	p := &Producer{Path: path, Waiting: func(err error, _ time.Duration) {
		if err == nil {
			t.Error("the connection was lost, and nobody can say why")
		}
		fmt.Fprintln(out, "{}")
		out.Close()
	}}
	res, err := p.Send(context.Background(), in)
	if err != nil || res.Accepted != 1 || res.Audit == nil || res.Audit.Block != 1 {
		t.Errorf("sent %+v, %v", res, err)
	}
}

// TestProducer_of_a_refused_connection: a server with too many connections says so and
// reads nothing. That is the one thing told, and no line counts as sent by it.
func TestProducer_of_a_refused_connection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "enqueue.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const refusal = `{"event":"error","code":"QUEUE_SATURATED","error":"1 connections are open, the limit is 1"}` + "\n"
	answer := `{"line":%d,"status":"accepted"}` + "\n"
	go func() {
		for range 2 {
			if c, err := l.Accept(); err == nil {
				fmt.Fprint(c, refusal)
				c.Close()
			}
		}
		c, err := l.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReader(c)
		for range 3 { // of three lines the first gets its receipt
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
		}
		fmt.Fprintf(c, answer, 1)
		c.Close()
		if c, err = l.Accept(); err != nil {
			return
		}
		defer c.Close()
		in = bufio.NewReader(c)
		n := 0
		for ; ; n++ {
			if _, err := in.ReadString('\n'); err != nil {
				break
			}
			fmt.Fprintf(c, answer, n+1)
		}
		fmt.Fprintf(c, `{"event":"end","audit":{"block":%d,"head":"h"}}`+"\n", n)
	}()
	var told []error
	p := &Producer{Path: path, Waiting: func(err error, _ time.Duration) { told = append(told, err) }}
	res, err := p.Send(context.Background(), strings.NewReader("{}\n{}\n{}\n"))
	if err != nil || res.Accepted != 3 || res.Resent != 2 {
		t.Errorf("%+v, %v: want 3 accepted, of which 2 were sent twice", res, err)
	}
	if len(told) != 3 {
		t.Fatalf("told %v", told)
	}
	for i, err := range told {
		if errors.Is(err, ErrRefused) != (i < 2) || strings.Contains(err.Error(), "\n") || i < 2 && !strings.HasSuffix(err.Error(), "QUEUE_SATURATED: 1 connections are open, the limit is 1") {
			t.Errorf("told %q at loss %d", err, i)
		}
	}
}

// TestProducer_gives_up: soon where nobody ever listened, late where somebody did.
func TestProducer_gives_up(t *testing.T) {
	for name, one := range map[string]struct {
		listens  bool
		tries    int
		min, max time.Duration
	}{
		"nobody listens": {false, 6, 6 * time.Second, 7 * time.Second},
		"one that left":  {true, 20, 70 * time.Second, 80 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "enqueue.sock")
				if one.listens {
					l, err := net.Listen("unix", path)
					if err != nil {
						t.Fatal(err)
					}
					go func() {
						if c, err := l.Accept(); err == nil {
							l.Close()
							c.Close()
						}
					}()
				}
				tries, began := 0, time.Now()
				p := &Producer{Path: path, Waiting: func(error, time.Duration) { tries++ }}
				_, err := p.Send(context.Background(), strings.NewReader("{}\n"))
				took := time.Since(began)
				if !errors.Is(err, ErrLost) || tries != one.tries || took < one.min || took > one.max {
					t.Errorf("%v after %d tries in %v", err, tries, took)
				}
			})
		})
	}
}
