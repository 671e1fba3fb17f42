package control

import (
	"bytes"
	"net"
	"testing"
)

// kept is a connection that keeps what is written to it.
type kept struct {
	net.Conn
	text bytes.Buffer
}

// Write keeps b.
func (k *kept) Write(b []byte) (int, error) { return k.text.Write(b) }

// A large body goes out in pieces that begin anywhere in it: one that begins with what
// somebody has sent, and that looks like an answer, is passed on as it is.
func TestTranslated_leaves_bodies_alone(t *testing.T) {
	for _, piece := range []string{
		`HTTP/1.1 417 Expectation Failed","line":"…"}`,
		"HTTP/1.1 417 \n{}",
		`HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n`,
		`{"line":"HTTP/1.1 417 Expectation Failed"}`,
	} {
		k := &kept{}
		if n, err := (translated{k}).Write([]byte(piece)); n != len(piece) || err != nil || k.text.String() != piece {
			t.Errorf("%d, %v: %q became %q", n, err, piece, k.text.String())
		}
	}
}
