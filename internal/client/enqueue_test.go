package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"testing"
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
