package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestMetricsServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "breakwater_x 1") })
	m := NewMetricsServer(metrics, "1.2.3", nil)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- m.Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{}}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/metrics", 200}, {"GET", "/healthz", 200}, {"POST", "/metrics", 405}, {"PUT", "/healthz", 405},
		{"GET", "/v1/status", 404}, {"POST", "/v1/pause", 404}, {"GET", "/readyz", 404}, {"GET", "/", 404}, {"GET", "/metrics?a=1", 400},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+l.Addr().String()+c.path, nil)
		must(t, err)
		res, err := client.Do(req)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, err)
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, body)
		}
		if c.path == "/metrics" && c.status == 200 && string(body) != "breakwater_x 1\n" {
			t.Errorf("the page is %q", body)
		}
	}
	client.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

func TestMetricsServer_limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		m := NewMetricsServer(http.NotFoundHandler(), "1.2.3", nil)
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error)
		go func() { served <- m.Serve(ctx, l) }()
		healthy := func(c net.Conn) bool {
			send(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			return readReply(t, c, "GET").status == http.StatusOK
		}
		var open []net.Conn
		for range maxScrapers {
			c := l.dial(t)
			if !healthy(c) {
				t.Fatal("a connection within the limit is refused")
			}
			open = append(open, c)
		}
		if _, err := l.dial(t).Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("one over the limit: %v", err)
		}
		open[0].Close()
		synctest.Wait()
		if c := l.dial(t); !healthy(c) {
			t.Error("there is room again, and it is refused")
		}
		<-time.After(scraperIdle + time.Second)
		for _, c := range open[1:] {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("silent for long: %v", err)
			}
		}
		if !healthy(l.dial(t)) {
			t.Error("the silent ones still take the room")
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
