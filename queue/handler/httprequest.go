package handler

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"breakwater/queue"
)

// request is the POST of one delivery. All of it has been checked before, so that
// nothing in a message can make a request impossible.
func (h *HTTP) request(ctx context.Context, d *queue.Delivery, authorization string) *http.Request {
	body := queue.AppendDelivery(nil, d, false)
	// The transport may send it once more, where a connection that was kept breaks without
	// an answer: whoever read it there may have done the work. So that one says what a
	// redelivery does, in as many bytes.
	again := *d
	again.Redelivered = true
	repeat := queue.AppendDelivery(nil, &again, false)
	for len(repeat) < len(body) {
		repeat = append(repeat, ' ')
	}
	u := h.target.url
	// The method is fixed and the URL replaced: there is no error to be had.
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", bytes.NewReader(body))
	req.URL, req.Host = &u, u.Host
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(repeat)), nil }
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", h.agent)
	req.Header.Set("Idempotency-Key", headerKey(d.Message.IdempotencyKey))
	if isTraceparent(d.Message.TraceID) {
		req.Header["traceparent"] = []string{d.Message.TraceID} // lower case, as its specification asks for
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return req
}

// headerKey is an idempotency key as the value of a header: as it is where it
// consists of visible ASCII (spaces inside too) and does not begin with a colon.
// Any other key is sent as a byte sequence of RFC 9651, which does: a colon, the
// base64 of its bytes, a colon. So two keys never look like one, and a line end in
// a key begins no header.
func headerKey(key string) string {
	plain := key != "" && key[0] != ':' && key[0] != ' ' && key[len(key)-1] != ' '
	for i := 0; plain && i < len(key); i++ {
		plain = key[i] >= ' ' && key[i] <= '~'
	}
	if plain {
		return key
	}
	return ":" + base64.StdEncoding.EncodeToString([]byte(key)) + ":"
}

// isTraceparent reports whether a trace id is the value of a traceparent header
// (W3C Trace Context, §3.2): version, trace id, parent id and flags in lower-case
// hex, 55 characters with their dashes; version ff and ids of zeros are invalid.
func isTraceparent(s string) bool {
	if len(s) != 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, parent, flags := s[:2], s[3:35], s[36:52], s[53:]
	for _, part := range [...]string{version, trace, parent, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	return version != "ff" && strings.Trim(trace, "0") != "" && strings.Trim(parent, "0") != ""
}

// userAgent is breakwater/version, without the version where it is no token of
// RFC 9110.
func userAgent(version string) string {
	const token = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&'*+-.^_`|~"
	if version == "" || strings.Trim(version, token) != "" {
		return "breakwater"
	}
	return "breakwater/" + version
}
