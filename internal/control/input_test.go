package control

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// problemIn reads the problem of an answer.
func problemIn(t testing.TB, a reply) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%d %q is no problem: %v", a.status, a.body, err)
	}
	if got := a.header.Get("Content-Type"); got != api.Trouble {
		t.Errorf("content type %q", got)
	}
	if p.Status != a.status || p.Title != http.StatusText(a.status) || p.Detail == "" {
		t.Errorf("status %d with %+v", a.status, p)
	}
	return p
}

func TestInput_queries(t *testing.T) {
	r := serve(t, Options{Store: newStore(t)})
	for _, target := range []string{
		"/v1/status?verbose=1", "/healthz?x=1", "/metrics2?x=1", "/v1/exceptions/1?limit=1",
		"/v1/exceptions?Limit=1", "/v1/exceptions?limit=1&limit=1", "/v1/exceptions?limit=",
		"/v1/exceptions?limit=0", "/v1/exceptions?limit=-1", "/v1/exceptions?limit=1001", "/v1/exceptions?limit=1e3",
		"/v1/exceptions?limit=1000000000000", "/v1/exceptions?limit=%2B1", "/v1/exceptions?limit=01", "/v1/exceptions?limit=1.0",
		"/v1/exceptions?limit=99999999999999999999999",
		"/v1/exceptions?after=-1", "/v1/exceptions?after=x", "/v1/exceptions?after=9007199254740992", "/v1/exceptions?after=MTIz",
		"/v1/exceptions?lines=1", "/v1/exceptions?state=dead", "/v1/exceptions?state=READY", "/v1/exceptions?partition_key=",
		"/v1/exceptions?idempotency_key=a&trace_id=b", "/v1/exceptions?idempotency_key=a&state=held", "/v1/exceptions?trace_id=a&partition_key=b",
		"/v1/exceptions?a;b", "/v1/exceptions?limit=%zz",
		"/v1/dead-letters?dead_before=yesterday", "/v1/dead-letters?dead_before=2026-13-01T00:00:00Z", "/v1/dead-letters?state=ready",
		"/v1/audit?event=decided", "/v1/audit?event=NOTHING", "/v1/audit?seq=0", "/v1/audit?limit=0", "/v1/audit?limit=1000000000000",
		"/v1/audit?since=2026-03-02", "/v1/audit?until=1", "/v1/audit?after_n=-1", "/v1/audit?after=1",
		"/v1/exceptions/0", "/v1/exceptions/-1", "/v1/exceptions/1e1", "/v1/exceptions/18446744073709551616", "/v1/exceptions/",
		"/v1/exceptions/" + strings.Repeat("9", 5000), "/v1/dead-letters/replay2",
	} {
		want, code := http.StatusBadRequest, queue.CodeUsage
		if strings.HasPrefix(target, "/metrics2") {
			want, code = http.StatusNotFound, queue.CodeNotFound
		}
		got := r.ask("GET", target, "")
		p := problemIn(t, got)
		if got.status != want || p.Code != string(code) {
			t.Errorf("%s: %d %s", excerpt(target), got.status, got.body)
		}
		if len(p.Detail) > 300 {
			t.Errorf("%s: the detail has %d bytes", excerpt(target), len(p.Detail))
		}
	}
	// What is repeated of a request is escaped once, by JSON.
	got := r.ask("GET", "/v1/status?a%1b%22%5c=1", "")
	if want := "the query's key \"a\x1b\"\\\" is not known here"; problemIn(t, got).Detail != want || !strings.Contains(got.body, `"a\u001b`) {
		t.Errorf("got %s, want the detail %q", got.body, want)
	}
	r.alive()
}

func TestInput_paths_and_methods(t *testing.T) {
	r := serve(t, Options{Store: newStore(t), Metrics: http.NotFoundHandler()})
	for _, path := range []string{
		"/", "//", "/v1", "/v1/", "/v1/status/", "//v1/status", "/v1/../v1/status", "/V1/status", "/v1/leases2", "/v1/exceptions/1/2",
		"/healthz/1", "/v1/exceptions//", "/v2/status", "/v1/audit/verify/1", "/favicon.ico",
	} {
		got := r.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if p := problemIn(t, got); got.status != http.StatusNotFound || p.Code != string(queue.CodeNotFound) {
			t.Errorf("GET %s: %d %s", path, got.status, got.body)
		}
	}
	for _, c := range []struct{ method, path, allow string }{
		{"POST", "/healthz", "GET, HEAD"}, {"DELETE", "/v1/exceptions/1", "GET, HEAD"}, {"PUT", "/v1/status", "GET, HEAD"},
		{"GET", "/v1/pause", "POST"}, {"HEAD", "/v1/drain", "POST"}, {"PATCH", "/v1/dead-letters/replay", "POST"},
		{"OPTIONS", "/v1/status", "GET, HEAD"}, {"TRACE", "/v1/status", "GET, HEAD"}, {"BREW", "/v1/status", "GET, HEAD"},
		{"get", "/v1/status", "GET, HEAD"}, {"PRI", "/v1/pause", "POST"}, {"POST", "/metrics", "GET, HEAD"},
	} {
		got := r.raw(c.method + " " + c.path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, got.status, got.header.Get("Allow"))
		}
	}
	for _, request := range []string{"OPTIONS * HTTP/1.1", "CONNECT evil.example:443 HTTP/1.1"} {
		if got := r.raw(request + "\r\nHost: x\r\n\r\n"); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", request, got.status)
		}
	}
	t.Run("HEAD is GET without the body", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/v1/status", "/v1/exceptions", "/readyz"} {
			get, head := r.ask("GET", path, ""), r.ask("HEAD", path, "")
			if head.status != get.status || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
				t.Errorf("%s: %+v, %+v", path, get, head)
			}
		}
	})
	t.Run("no upgrade is offered", func(t *testing.T) {
		for _, headers := range []string{
			"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
			"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
		} {
			if got := r.raw("GET /healthz HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"); got.status != http.StatusOK {
				t.Errorf("%q: %d", headers, got.status)
			}
		}
		if got := r.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); got.status != http.StatusNotFound || problemIn(t, got).Code != string(queue.CodeNotFound) {
			t.Errorf("the preface of HTTP/2: %d %s", got.status, got.body)
		}
	})
}

// post is a request's head and body as bytes.
func post(path, headers, body string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
}

func TestInput_bodies(t *testing.T) {
	store := newStore(t)
	r := serve(t, Options{Store: store})
	sized := func(kind, body string) string {
		return "Content-Type: " + kind + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	type input struct {
		name, request string
		status        int
	}
	inputs := []input{
		{"no content type", post("/v1/pause", "Content-Length: 2\r\n", "{}"), 415},
		{"no content type, chunked", post("/v1/pause", "Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), 415},
		{"headers over the limit", post("/v1/pause", "X: "+strings.Repeat("x", 1<<20)+"\r\n", ""), 431},
		{"10,000 headers", post("/v1/pause", strings.Repeat("X-Y: z\r\n", 10_000), ""), 431},
		{"negative length", post("/v1/pause", "Content-Length: -1\r\n", ""), 400},
		{"two lengths", post("/v1/pause", "Content-Length: 2\r\nContent-Length: 3\r\n", "{}"), 400},
		{"a length that is no number", post("/v1/pause", "Content-Length: many\r\n", "{}"), 400},
		{"an unknown transfer encoding", post("/v1/pause", "Transfer-Encoding: gzip\r\n", "{}"), 501},
		{"a bad chunk", post("/v1/pause", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n", "zz\r\n"), 400},
		{"no host", "POST /v1/pause HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400},
		{"no HTTP", `{"idempotency_key":"k1"}` + "\n\n", 400},
		{"a bad name of a header", post("/v1/pause", "a b: c\r\n", ""), 400},
		{"a bad host", "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
		{"a version to come", "GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n", 505},
		{"what nobody expects", post("/v1/pause", "Expect: miracles\r\nContent-Length: 0\r\n", ""), 417},
		{"a body on GET", "GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"one byte over the limit", post("/v1/pause", sized(api.JSON, strings.Repeat(" ", MaxBody+1)), strings.Repeat(" ", MaxBody+1)), 413},
		{"chunks over the limit", post("/v1/pause", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n",
			strings.Repeat("10000\r\n"+strings.Repeat(" ", 1<<16)+"\r\n", 17)), 413},
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", "json", ";", "text/json"} {
		inputs = append(inputs, input{"content type " + kind, post("/v1/pause", sized(kind, "{}"), "{}"), 415},
			input{"content type " + kind + ", no body", post("/v1/pause", sized(kind, ""), ""), 415})
	}
	bodies := map[string][]string{
		"/v1/pause": {
			"{", "[]", `"x"`, "7", "true", "{}{}", `{"By":"alice"}`, `{"by":1}`, `{"by":"a","by":"b"}`, `{"by":"a",}`, `{'by':'a'}`, `{"by":"` + "\xff" + `"}`,
			`{"by":"\ud800"}`, `{"why":"x"}`, `{"seqs":[1]}`, "\ufeff{}", strings.Repeat("[", 100_000),
			`{"by":"` + strings.Repeat("x", 257) + `"}`, `{"reason":"` + strings.Repeat("x", 4097) + `"}`,
		},
		"/v1/dead-letters/discard": {
			`{"reason":"x"}`, `{"seqs":[],"reason":"x"}`, `{"seqs":[-1],"reason":"x"}`, `{"seqs":[1.5],"reason":"x"}`, `{"seqs":["1"],"reason":"x"}`,
			`{"seqs":[18446744073709551616],"reason":"x"}`, `{"seqs":1,"reason":"x"}`, `{"seqs":[` + strings.Repeat("1,", 1000) + `1],"reason":"x"}`,
			`{"seqs":[1],"reason":"x","dry_run":"yes"}`, `{"seqs":[1]}`, `{"seqs":[0],"reason":"x"}`,
		},
		"/v1/dead-letters/replay": {`{"seqs":[1],"forget":true}`, `{"seqs":[1,0]}`, `{}`, ``},
		"/v1/keys/hold": {
			`{"keys":"a"}`, `{"keys":[1]}`, `{"keys":[null,1]}`, `{"keys":["` + strings.Repeat("k", 257) + `"]}`, `{"keys":["a",""]}`, `{}`, `null`, `{"keys":["a"],"waits":true}`,
		},
		"/v1/keys/release": {`{"keys":[]}`, `{"keys":["a"],"waits":1}`, `{"keys":["a"],"wait":true}`},
		"/v1/leases/revoke": {`{}`, `{"seqs":[]}`, `{"seqs":[-1]}`, `{"seqs":[1],"forget":true}`, `{"seqs":[` + strings.Repeat("1,", 1000) + `1]}`,
			`{"seqs":[0]}`, `{"leases":[{"fence":1}]}`, `{"leases":[]}`, `{"leases":[{"seq":1}]}`, `{"leases":[{"seq":1,"fence":-1}]}`, `{"leases":[{"seq":1,"fence":2,"owner":"ui"}]}`, `{"seqs":[1],"leases":[{"seq":1,"fence":2}]}`},
		"/v1/audit/verify": {`{"witness":"1"}`, `{"witness":"0:` + strings.Repeat("0", 64) + `"}`, `{"witness":"1:` + strings.Repeat("0", 63) + `"}`,
			`{"witnesses":[{"block":0,"head":"` + strings.Repeat("0", 64) + `"}]}`, `{"witnesses":[{"block":1}]}`,
			`{"witnesses":[` + strings.Repeat(`{"block":1,"head":"`+strings.Repeat("0", 64)+`"},`, api.MaxWitnesses) + `{"block":1,"head":"` + strings.Repeat("0", 64) + `"}]}`},
		"/v1/pause?by=alice": {`{}`},
	}
	for path, all := range bodies {
		for i, body := range all {
			inputs = append(inputs, input{fmt.Sprintf("%s body %d", path, i), post(path, sized(api.JSON, body), body), 400})
		}
	}
	before, err := store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range inputs {
		got := r.raw(in.request)
		if p := problemIn(t, got); got.status != in.status || p.Status != in.status || p.Code != string(queue.CodeUsage) {
			t.Errorf("%s: %d %q, want %d", in.name, got.status, got.body, in.status)
		}
		if strings.Contains(got.body, "goroutine") || strings.Contains(got.body, ".go:") || len(got.body) > 1000 {
			t.Errorf("%s: the answer tells too much: %q", in.name, got.body)
		}
	}
	r.alive()
	if after, err := store.Head(t.Context()); err != nil || after != before {
		t.Errorf("something was written: %v, %v", after, err)
	}
}

// A body that says both how long it is and that it is chunked is read as chunked
// (RFC 9112, section 6.3), and nothing after it is taken for a request.
func TestInput_two_lengths_smuggle_nothing(t *testing.T) {
	store := newStore(t)
	r := serve(t, Options{Store: store})
	smuggled := post("/v1/pause", "Content-Type: application/json\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n")
	if got := r.raw(smuggled); got.status != http.StatusOK && got.status != http.StatusBadRequest {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.alive()
}

// The limits are exact.
func TestInput_limits_are_exact(t *testing.T) {
	r := serve(t, Options{Store: newStore(t)})
	body := `{"by":"` + strings.Repeat("x", 256) + `","reason":"` + strings.Repeat("x", 4096) + `"}`
	body += strings.Repeat(" ", MaxBody-len(body))
	if got := r.ask("POST", "/v1/pause", body); got.status != http.StatusOK {
		t.Errorf("a body of the full length: %d %s", got.status, got.body)
	}
	seqs := `{"dry_run":true,"seqs":[` + strings.Repeat("1,", 999) + `1]}`
	if got := r.ask("POST", "/v1/dead-letters/replay", seqs); got.status != http.StatusOK {
		t.Errorf("1000 seqs: %d %s", got.status, got.body)
	}
	if got := r.ask("POST", "/v1/keys/hold", `{"keys":["`+strings.Repeat("k", 256)+`"]}`); got.status != http.StatusOK {
		t.Errorf("a key of 256 bytes: %d %s", got.status, got.body)
	}
	for _, target := range []string{"/v1/exceptions?limit=1000&after=9007199254740991", "/v1/audit?limit=1000000000&after_n=9007199254740991"} {
		if got := r.ask("GET", target, ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", target, got.status, got.body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://c/v1/pause", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	if got := r.do(req); got.status != http.StatusOK {
		t.Errorf("a content type with a parameter: %d %s", got.status, got.body)
	}
}

// Keys and ids are bytes: in a query they are percent-encoded, in an answer they are
// escaped wherever a terminal would obey them, and decode to what they were.
func TestInput_keys_are_bytes(t *testing.T) {
	store := newStore(t)
	key := "k\x00\x1b[2J\u202e\u009b\x7f/é\u2028"
	quoted := string(queue.AppendText(nil, key))
	admit(t, store, start, `{"idempotency_key":`+quoted+`,"trace_id":"t","partition_key":`+quoted+
		`,"ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"1.00","raw":"`+"\u202e\u009b"+`"}`)
	r := serve(t, Options{Store: store})
	var escaped strings.Builder
	for _, b := range []byte(key) {
		fmt.Fprintf(&escaped, "%%%02x", b)
	}
	for _, query := range []string{"idempotency_key=", "partition_key="} {
		got := r.ask("GET", "/v1/exceptions?"+query+escaped.String(), "")
		var page api.List[api.Exception]
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || len(page.Items) != 1 {
			t.Fatalf("%s: %d %q, %v", query, got.status, got.body, err)
		}
		x := page.Items[0]
		if x.IdempotencyKey != key || x.PartitionKey != key || !strings.HasSuffix(x.Line, "\"raw\":\"\u202e\u009b\"}") {
			t.Errorf("%q, %q, %q", x.IdempotencyKey, x.PartitionKey, x.Line)
		}
		for _, hidden := range []string{"\x00", "\x1b", "\x7f", "\u202e", "\u009b", "\u2028"} {
			if strings.Contains(got.body, hidden) {
				t.Errorf("%q is not escaped", hidden)
			}
		}
		if !strings.Contains(got.body, "é") {
			t.Error("a letter is escaped")
		}
	}
}

func TestRefusal(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	go func() { defer b.Close(); b.Write(Refusal()) }()
	got := readReply(t, a, "GET")
	if p := problemIn(t, got); got.status != http.StatusServiceUnavailable || p.Code != string(queue.CodeSaturated) || p.Hint == "" {
		t.Errorf("%+v", got)
	}
}
