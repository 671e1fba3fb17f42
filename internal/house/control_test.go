package house

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
)

// control asks the control socket.
func (s *site) control(path string, into any) {
	s.Helper()
	c := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.path("var/run/control.sock"))
		},
		DisableKeepAlives: true,
	}}
	res, err := c.Get("http://breakwater" + path)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		s.Fatal(err)
	}
}

// done asks the running program how many exceptions are done.
func (s *site) done() int {
	s.Helper()
	var st struct {
		Done int `json:"done"`
	}
	s.control("/v1/status", &st)
	return st.Done
}

// awaitDone polls until so many exceptions are done.
func (s *site) awaitDone(n int) {
	s.Helper()
	eventually(s, fmt.Sprintf("%d exceptions are done", n), func() bool { return s.done() >= n })
}
