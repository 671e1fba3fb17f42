package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// translated is a connection on which also what net/http answers by itself is a problem
// document: it sees to requests that it cannot read, which no handler hears of, and has
// no hook for what it says then, but it says it in one Write.
type translated struct{ net.Conn }

const (
	// A refusal of net/http has these headers and no others. What a handler says has at
	// least a date.
	refusalHeaders = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	statusPrefix   = "HTTP/1.1 "
	// expectation is how the answer to an Expect begins that nobody knows; no handler
	// here gives this status. A large body goes out in pieces that begin anywhere, and may
	// repeat what somebody sent; but all bodies here are of JSON or plain text, which has
	// no carriage return.
	expectation = statusPrefix + "417 Expectation Failed\r\n"
)

// Write sends b, or the problem document that says the same.
func (c translated) Write(b []byte) (int, error) {
	p := refusalIn(b)
	if p == nil {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(bareAnswer(p)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// refusalIn is what net/http says in b if it speaks for itself, else nil.
func refusalIn(b []byte) *problem {
	if bytes.HasPrefix(b, []byte(expectation)) {
		return &problem{status: http.StatusExpectationFailed, code: queue.CodeUsage, detail: "the only expectation that can be met is 100-continue"}
	}
	head, _, ok := bytes.Cut(b, []byte(refusalHeaders))
	if !ok || !bytes.HasPrefix(head, []byte(statusPrefix)) || bytes.IndexByte(head, '\n') >= 0 {
		return nil
	}
	code, reason, _ := bytes.Cut(head[len(statusPrefix):], []byte(" "))
	status, err := strconv.Atoi(string(code))
	if err != nil || status < http.StatusBadRequest {
		return nil
	}
	p := &problem{status: status, code: queue.CodeUsage, detail: "this is no request of HTTP/1.1"}
	switch _, why, explained := bytes.Cut(reason, []byte(": ")); {
	case status == http.StatusRequestHeaderFieldsTooLarge:
		p.detail = fmt.Sprintf("the head of the request is longer than %d bytes", maxHeader)
	case status == http.StatusNotImplemented:
		p.detail = "the only transfer coding known here is chunked"
	case explained:
		p.detail += ": " + string(why) // one of the library's constants
	}
	return p
}

// bareAnswer is a problem as an answer to a request that nobody has read; the connection
// ends with it.
func bareAnswer(p *problem) []byte {
	body, err := json.Marshal(p.body())
	if err != nil {
		body = []byte("{}") // it has texts and numbers only: it cannot fail
	}
	body = append(visible(body), '\n')
	var retry string
	if p.retry > 0 {
		retry = fmt.Sprintf("Retry-After: %d\r\n", p.retry)
	}
	return fmt.Appendf(nil, "%s%d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%sConnection: close\r\n\r\n%s",
		statusPrefix, p.status, http.StatusText(p.status), api.Trouble, len(body), retry, body)
}
