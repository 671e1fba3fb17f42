package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"breakwater/internal/control/api"
)

const (
	dialTime = 5 * time.Second
	// answerTime bounds a request that reads a page or changes something, from its
	// first byte to the last of the answer.
	answerTime = 2 * time.Minute
	// maxAnswer bounds an answer that is one document. The longest is a page of
	// exceptions: 4 MiB of lines and one more of 16 MiB, each byte of which may take
	// six in JSON (\u0000).
	maxAnswer = 128 << 20
	// maxTrouble bounds a problem document.
	maxTrouble = 1 << 20
)

// ErrNobody: nothing could be reached at the control socket.
var ErrNobody = errors.New("nothing answers on the control socket")

// Problem is an answer that is not a success.
type Problem struct {
	api.Problem
}

// Error returns the code and what went wrong.
func (p *Problem) Error() string { return p.Problem.Error() }

// Advice returns what the server says may be done about it; it may be empty.
func (p *Problem) Advice() string { return p.Hint }

// Stale reports whether what was to be changed is not what it was any more.
func (p *Problem) Stale() bool { return p.Status == http.StatusPreconditionFailed }

// Control asks and steers a breakwater over its control socket. It may be used from
// many goroutines.
type Control struct {
	http *http.Client
}

// NewControl returns a client of the socket at path. Nothing is connected yet. If that is
// another socket of breakwater's, every request is ErrOtherSocket.
func NewControl(path string) *Control { return NewControlOver((&door{path: path}).dial) }

// NewControlOver returns a client over connections that dial makes.
func NewControlOver(dial func(context.Context) (net.Conn, error)) *Control {
	return &Control{http: &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, err := dial(ctx)
				switch {
				case errors.Is(err, syscall.EAGAIN): // so many wait to be accepted that no more may
					err = fmt.Errorf("%w: %w", ErrSilent, err)
				case err != nil && !errors.Is(err, ErrOtherSocket):
					err = fmt.Errorf("%w: %w", ErrNobody, err)
				}
				return c, err
			},
			DisableCompression: true, // it stays on this host
			MaxIdleConns:       1,
		},
		// What the server does not do is not followed: a redirect is a strange answer.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Control) Close() { c.http.CloseIdleConnections() }

// host stands in URLs where HTTP wants a name; the socket decides who is asked.
const host = "http://breakwater"

// get asks for a document.
func (c *Control) get(ctx context.Context, path string, query url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return c.document(ctx, http.MethodGet, path, query, nil, into)
}

// post asks for something to be done.
func (c *Control) post(ctx context.Context, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	return c.document(ctx, http.MethodPost, path, nil, body, into)
}

// document sends a request and reads the document that answers it.
func (c *Control) document(ctx context.Context, method, path string, query url.Values, body, into any) error {
	res, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := readAtMost(res.Body, maxAnswer)
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// ErrNotText: a request has text that is not UTF-8, which JSON cannot carry. The error
// around it names the member.
var ErrNotText = errors.New("not UTF-8")

// encode writes a request's body. What is not UTF-8 is an error: each such byte would
// become U+FFFD on its way, and what is done would not be what was asked for.
func encode(body any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // a body is not for a browser, and its length is bounded
	if err := enc.Encode(body); err != nil {
		return nil, err
	}
	return text.Bytes(), mustBeText("the request", reflect.ValueOf(body))
}

// mustBeText returns the error of the first string of a request's body that is not UTF-8,
// in the value that is called name.
func mustBeText(name string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("%s is %w: %.80q", name, ErrNotText, v.String())
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return mustBeText(name, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			inner, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous {
				inner = name
			}
			if err := mustBeText(inner, v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := mustBeText(name, v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends a request. Whatever is not a success is a *Problem; the body of what is
// must be closed. A server that does not answer at all is ErrSilent after some seconds,
// one that takes its time is waited for.
func (c *Control) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := encode(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request to %s: %w", path, err)
		}
		reader = bytes.NewReader(text)
	}
	target := host + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", api.JSON)
	}
	res, err := c.doWhileAlive(req)
	var wrapped *url.Error
	errors.As(err, &wrapped)
	switch {
	case wrapped != nil && (errors.Is(err, ErrNobody) || errors.Is(err, ErrOtherSocket)): // there was nobody to ask
		return nil, wrapped.Err
	case wrapped != nil: // its own text is the request's, which nobody typed
		return nil, fmt.Errorf("ask for %s: %w", path, wrapped.Err)
	case err != nil:
		return nil, err
	case res.StatusCode/100 == 2:
		return res, nil
	}
	defer res.Body.Close()
	return nil, troubleOf(res)
}

// troubleOf reads a problem document. An answer that is none, of another program or
// version, is described by its status.
func troubleOf(res *http.Response) error {
	p := &Problem{}
	text, err := readAtMost(res.Body, maxTrouble)
	if err == nil {
		err = json.Unmarshal(text, &p.Problem)
	}
	if err != nil || p.Code == "" {
		return fmt.Errorf("a strange answer from the control socket: %s", res.Status)
	}
	return p
}

// errTooLong: an answer is longer than it can be.
var errTooLong = errors.New("the answer is too long")

func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errTooLong
	}
	return text, err
}
