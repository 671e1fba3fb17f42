package socket

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

func consumeServer(t testing.TB, d Desk, o ConsumeOptions) *ConsumeServer {
	t.Helper()
	s, err := NewConsumeServer(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// consume connects a consumer to a server on a real socket. Nothing is said yet.
func consume(t *testing.T, d *testDesk, o ConsumeOptions) (*session, *serving) {
	t.Helper()
	l := serve(t, ListenOptions{}, consumeServer(t, d, o).handle)
	return connect(t, l), l
}

// attached connects a consumer and attaches it.
func attached(t *testing.T, d *testDesk, attach string) (*session, *serving) {
	t.Helper()
	c, l := consume(t, d, ConsumeOptions{})
	c.ask(t, attach)
	return c, l
}

// ask sends a first line that must be taken.
func (s *session) ask(t *testing.T, attach string) {
	t.Helper()
	s.send(t, attach+"\n")
	if got := s.next(t); !strings.HasPrefix(got, `{"event":"attached","consumer":"`) {
		t.Fatalf("got %s", got)
	}
}

const attachOne = `{"attach":"ui-1","prefetch":1}`
const attachTen = `{"attach":"ui-1","prefetch":10}`

// lease returns the token of the next line, which must be a delivery.
func (s *session) lease(t *testing.T) string {
	t.Helper()
	return token(t, s.next(t))
}

func token(t *testing.T, line string) string {
	t.Helper()
	const begin = `{"event":"delivery","lease":"`
	if !strings.HasPrefix(line, begin) {
		t.Fatalf("want a delivery, got %s", line)
	}
	return line[len(begin) : len(begin)+32]
}

func TestConsume(t *testing.T) {
	t.Run("speaks as the contract says", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 7)
		c, _ := consume(t, d, ConsumeOptions{})
		c.send(t, "\ufeff\r\n"+`{"attach":"review-ui-1","prefetch":16,"routes":["ROUTE_REVIEW"],"lease_timeout_ms":600000}`+"\r\n")
		got := []string{c.next(t)}
		var tokens []string
		for range 7 {
			got = append(got, c.next(t))
			tokens = append(tokens, token(t, got[len(got)-1]))
		}
		if want := `{"event":"attached","consumer":"review-ui-1","lease_timeout_ms":600000}`; got[0] != want {
			t.Errorf("got %s, want %s", got[0], want)
		}
		if !strings.HasSuffix(got[1], `,"exception":`+message("k1")+`}`) || !strings.Contains(got[1], `,"seq":1,"route":"ROUTE_REVIEW","delivery":1,"failed_attempts":0,"redelivered":false,"accepted_at":"`) {
			t.Errorf("got %s", got[1])
		}
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"APPROVED","by":"alice","note":"fine"}
{"retry":%q,"reason":"locked","after_ms":5000}

{"release":%q}
{"hold":%q,"until":"2040-01-01T00:00:00Z","reason":"dispute"}
{"reject":%q,"reason":"not ours"}
{"extend":%q}
{"ack":%q,"outcome":"POSTED"}
`, tokens[0], tokens[1], tokens[2], tokens[3], tokens[4], tokens[5], tokens[6]))
		for i, want := range []string{"settled", "settled", "settled", "settled", "settled", "extended", "settled"} {
			line := c.next(t)
			for strings.HasPrefix(line, `{"event":"delivery"`) { // of what was released
				line = c.next(t)
			}
			begin := fmt.Sprintf(`{"event":%q,"lease":%q,"seq":%d`, want, tokens[i], i+1)
			if !strings.HasPrefix(line, begin) || want == "extended" && !strings.HasPrefix(line, begin+`,"deadline":"2`) {
				t.Errorf("got %s, want %s", line, begin)
			}
		}
		peer := queue.Peer{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), PID: int32(os.Getpid())}
		decided := d.records(t, queue.EventDecided)
		if len(decided) != 2 || decided[0].Outcome != "APPROVED" || decided[0].By != "alice" || decided[0].Note != "fine" ||
			decided[0].Worker != "review-ui-1" || decided[0].Peer == nil || *decided[0].Peer != peer {
			t.Errorf("decided %+v", decided)
		}
		held := d.records(t, queue.EventHeld)
		if len(held) != 1 || held[0].Until.Year() != 2040 || held[0].Reason != "dispute" {
			t.Errorf("held %+v", held)
		}
		if r := d.records(t, queue.EventRetried); len(r) != 1 || r[0].Until.Sub(r[0].TS) < 5*time.Second || r[0].Reason != "locked" {
			t.Errorf("retried %+v", r)
		}
		if st := d.status(t); st.Done != 2 || st.Dead != 1 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("a lease may not be given twice, an answer is judged by its token", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 1)
		c, _ := attached(t, d, attachOne)
		lease := c.lease(t)
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}`+"\n"+`{"ack":%q,"outcome":"B"}`+"\n"+`{"extend":%q}`+"\n"+`{"release":"%032x"}`+"\n", lease, lease, lease, 9))
		for _, want := range []string{
			fmt.Sprintf(`{"event":"settled","lease":%q,"seq":1}`, lease),
			fmt.Sprintf(`{"event":"refused","lease":%q,"code":"ALREADY_SETTLED","error":"the message is settled"}`, lease),
			fmt.Sprintf(`{"event":"refused","lease":%q,"code":"ALREADY_SETTLED","error":"the message is settled"}`, lease),
			fmt.Sprintf(`{"event":"refused","lease":"%032x","code":"LEASE_EXPIRED","error":"the lease is over, or it is somebody else's"}`, 9),
		} {
			if got := c.next(t); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
	t.Run("what arrived together is settled together, in its order", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 5)
		c, _ := attached(t, d, attachTen)
		var l []string
		for range 5 {
			l = append(l, c.lease(t))
		}
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}
{"ack":"nonsense","outcome":"A"}
{"ack":%q,"outcome":"A"}
{"extend":%q}
{"ack":%q,"outcome":"A"}
{"detach":true}
{"ack":%q,"outcome":"A"}
`, l[0], l[1], l[2], l[2], l[3]))
		var got []string
		for c.in.Scan() {
			got = append(got, c.in.Text()[:strings.IndexByte(c.in.Text(), ',')+1])
		}
		want(t, got, `{"event":"settled",`, `{"event":"error",`, `{"event":"settled",`, `{"event":"extended",`, `{"event":"settled",`, ``)
		if !slices.Equal(d.asked, []int{2, -1, 1, 2}) {
			t.Errorf("asked %v", d.asked)
		}
		if st := d.status(t); st.Done != 3 || st.Ready != 2 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("a wrong line is told, counted and changes nothing", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 1)
		c, _ := attached(t, d, attachOne)
		lease := c.lease(t)
		c.send(t, "\n"+`{"ack":"`+lease+`"}`+"\n"+strings.Repeat("x", maxAnswerLine+1)+"\n"+`{"ack":"`+lease+`","outcome":"A"}`+"\n")
		for _, want := range []string{
			`{"event":"error","code":"USAGE","line":3,"error":"outcome is not 1 to 64 of A-Z, 0-9 and _: \"\""}`,
			`{"event":"error","code":"USAGE","line":4,"error":"line of 65537 bytes, the limit is 65536"}`,
			fmt.Sprintf(`{"event":"settled","lease":%q,"seq":1}`, lease),
		} {
			if got := c.next(t); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
}

func TestConsumeAttach(t *testing.T) {
	t.Run("who is refused may try again", func(t *testing.T) {
		d := newDesk(t)
		first, l := attached(t, d, attachOne)
		c := connect(t, l)
		for _, one := range []struct{ send, want string }{
			{`{"release":"%s"}`, `{"event":"error","code":"USAGE","line":1,"error":"attach first: nothing can be answered before"}`},
			{`{"attach":"ui-2","prefetch":1025}`, `{"event":"error","code":"USAGE","line":2,"error":"prefetch is 1025, max_prefetch is 1024"}`},
			{`{"attach":"ui-2","prefetch":1,"lease_timeout_ms":3600001}`, `{"event":"error","code":"USAGE","line":3,"error":"lease_timeout_ms is 3600001, max_lease_timeout_ms is 3600000"}`},
			{attachOne, `{"event":"refused","consumer":"ui-1","code":"NAME_IN_USE","error":"the name is in use by an attached consumer"}`},
			{`{"attach":"ui-2","prefetch":4294967296}`, `{"event":"error","code":"USAGE","line":5,"error":"prefetch is 4294967296, max_prefetch is 1024"}`},
			{`{"attach":"ui-2","prefetch":1,"lease_timeout_ms":99999999999999999999}`, `{"event":"error","code":"USAGE","line":6,"error":"lease_timeout_ms is 99999999999999999999, max_lease_timeout_ms is 3600000"}`},
			{strings.Repeat(" ", maxAnswerLine) + "{}", `{"event":"error","code":"USAGE","line":7,"error":"line of 65538 bytes, the limit is 65536"}`},
			{`{"attach":"ui-2","prefetch":1}`, `{"event":"attached","consumer":"ui-2","lease_timeout_ms":30000}`},
			{attachOne, `{"event":"error","code":"USAGE","line":9,"error":"there is no member \"attach\""}`},
		} {
			c.send(t, one.send+"\n")
			if got := c.next(t); got != one.want {
				t.Errorf("got  %s\nwant %s", got, one.want)
			}
		}
		first.Close()
		again := connect(t, l)
		for got := ""; !strings.HasPrefix(got, `{"event":"attached"`); { // until the server has seen the close
			again.send(t, attachOne+"\n")
			got = again.next(t)
		}
	})
	t.Run("while draining nobody is", func(t *testing.T) {
		d := newDesk(t)
		d.draining = true
		c, _ := consume(t, d, ConsumeOptions{})
		c.send(t, attachOne+"\n")
		if got, want := c.next(t), `{"event":"refused","consumer":"ui-1","code":"DRAINING","error":"shutting down"}`; got != want {
			t.Errorf("got %s", got)
		}
	})
	t.Run("it is known by its name and its user", func(t *testing.T) {
		d := newDesk(t)
		a, b := net.Pipe()
		defer a.Close()
		peer := queue.Peer{UID: 7, GID: 8, PID: 9}
		go consumeServer(t, d, ConsumeOptions{}).handle(t.Context(), &Conn{Conn: b, peer: peer})
		io.WriteString(a, `{"attach":"ui-1","prefetch":2,"routes":["AUTO_RESOLVE"]}`+"\n")
		bufio.NewReader(a).ReadString('\n')
		d.mu.Lock()
		defer d.mu.Unlock()
		want := queue.Attachment{
			Owner: queue.Owner{Kind: queue.Consumer, Name: "ui-1", UID: 7}, Peer: peer,
			Prefetch: 2, Routes: queue.RoutesOf(queue.AutoResolve), Lease: 30 * time.Second,
		}
		if d.last != want {
			t.Errorf("%+v, want %+v", d.last, want)
		}
	})
	t.Run("limits follow a reload for who comes after it", func(t *testing.T) {
		d := newDesk(t)
		s := consumeServer(t, d, ConsumeOptions{})
		c := connect(t, serve(t, ListenOptions{}, s.handle))
		if err := s.Reconfigure(ConsumeOptions{Lease: time.Second, MaxLease: time.Minute, MaxPrefetch: 2}); err != nil {
			t.Fatal(err)
		}
		c.send(t, `{"attach":"a","prefetch":3}`+"\n"+`{"attach":"a","prefetch":2}`+"\n")
		want(t, []string{c.next(t), c.next(t)},
			`{"event":"error","code":"USAGE","line":1,"error":"prefetch is 3, max_prefetch is 2"}`,
			`{"event":"attached","consumer":"a","lease_timeout_ms":1000}`)
		for _, bad := range []ConsumeOptions{{Lease: time.Hour, MaxLease: time.Minute}, {MaxPrefetch: -1}, {Lease: time.Microsecond}} {
			if err := s.Reconfigure(bad); err == nil {
				t.Errorf("%+v is taken", bad)
			}
		}
	})
}

func TestReadAttach(t *testing.T) {
	for line, want := range map[string]string{
		`{"attach":"a"}`:                                            "prefetch is missing: how many unsettled deliveries to have at most",
		`{"prefetch":1}`:                                            "attach is missing: the name of the consumer",
		`{"attach":"","prefetch":1}`:                                "attach is empty: a consumer needs a name",
		`{"attach":5,"prefetch":1}`:                                 `attach is not a string: 5`,
		`{"attach":null,"prefetch":1}`:                              `attach is not a string: null`,
		`{"attach":" a","prefetch":1}`:                              "attach begins or ends with white space",
		`{"attach":"a\u0007b","prefetch":1}`:                        "attach has the character U+0007, which is not shown",
		`{"attach":"a\u202eb","prefetch":1}`:                        "attach has the character U+202E, which is not shown",
		`{"attach":"w-3","prefetch":1}`:                             "attach is the name of a worker: w- and digits are taken",
		`{"attach":"a","prefetch":0}`:                               "prefetch is 0: at least 1 is needed",
		`{"attach":"a","prefetch":-1}`:                              `prefetch is not a whole number from 0 up: -1`,
		`{"attach":"a","prefetch":1.0}`:                             `prefetch is not a whole number from 0 up: 1.0`,
		`{"attach":"a","prefetch":"1"}`:                             `prefetch is not a whole number from 0 up: "1"`,
		`{"attach":"a","prefetch":1,"x":2}`:                         `attach has no member "x"`,
		`{"attach":"a","attach":"b"}`:                               `the line is not JSON: duplicate object member name "attach"`,
		`{"attach":"a","Prefetch":1}`:                               `attach has no member "Prefetch"`,
		`{"attach":"a","prefetch":1}{}`:                             "something follows the object",
		`{"attach":"a","prefetch":1`:                                "the object is cut off",
		`["attach"]`:                                                `the line is no JSON object: "["attach"]"`,
		`{"attach":"a","prefetch":1,"routes":[]}`:                   "routes is empty: leave it out for all of them",
		`{"attach":"a","prefetch":1,"routes":"ROUTE_REVIEW"}`:       `routes is not a list: "ROUTE_REVIEW"`,
		`{"attach":"a","prefetch":1,"routes":["REVIEW"]}`:           `routes has "REVIEW": there are AUTO_RESOLVE and ROUTE_REVIEW`,
		`{"attach":"a","prefetch":1,"lease_timeout_ms":9}`:          "lease_timeout_ms is 9: at least 10 are needed",
		`{"attach":"` + strings.Repeat("a", 65) + `","prefetch":1}`: "attach has 65 bytes, the limit is 64",
	} {
		if _, err := readAttach([]byte(line)); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", line, err, want)
		}
	}
	r, err := readAttach([]byte(` {"lease_timeout_ms":10,"routes":["AUTO_RESOLVE","AUTO_RESOLVE"],"prefetch":16,"attach":"Prüfung 1 (β)"} `))
	want := request{name: "Prüfung 1 (β)", prefetch: 16, routes: queue.RoutesOf(queue.AutoResolve), lease: 10 * time.Millisecond}
	want.wrote.prefetch, want.wrote.lease = "16", "10"
	if err != nil || r != want {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = readAttach([]byte(`{"attach":"a","prefetch":99999999999999999999}`)); err != nil || r.routes != queue.RoutesOf(queue.Routes[:]...) || r.prefetch < 1<<30 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestReadAnswer(t *testing.T) {
	const lease = "000000000000002a0000000000000007"
	for line, want := range map[string]string{
		`{}`:                        "it says nothing: one of ack, retry, release, hold, reject, extend, detach is missing",
		`{"ack":"x","outcome":"A"}`: `ack is not a lease's token: "x"`,
		`{"ack":"000000000000002A0000000000000007","outcome":"A"}`:                 `ack is not a lease's token: "000000000000002A0000000000000007"`,
		`{"ack":42,"outcome":"A"}`:                                                 `ack is not a lease's token: 42`,
		`{"ack":"LEASE"}`:                                                          `outcome is not 1 to 64 of A-Z, 0-9 and _: ""`,
		`{"ack":"LEASE","outcome":"Approved"}`:                                     `outcome is not 1 to 64 of A-Z, 0-9 and _: "Approved"`,
		`{"ack":"LEASE","outcome":"` + strings.Repeat("A", 65) + `"}`:              "outcome has 65 bytes, the limit is 64",
		`{"ack":"LEASE","outcome":null}`:                                           `outcome is not a string: null`,
		`{"ack":"LEASE","outcome":"A","reason":"r"}`:                               "ack has no member reason",
		`{"ack":"LEASE","outcome":"A","reject":"LEASE"}`:                           "it says both ack and reject",
		`{"ack":"LEASE","outcome":"A","ack":"LEASE"}`:                              `the line is not JSON: duplicate object member name "ack"`,
		`{"ack":"LEASE","outcome":"A","by":"` + strings.Repeat("é", 129) + `"}`:    "by has 258 bytes, the limit is 256",
		`{"ack":"LEASE","outcome":"A","note":"` + strings.Repeat("n", 4097) + `"}`: "note has 4097 bytes, the limit is 4096",
		`{"reject":"LEASE","reason":"` + strings.Repeat("n", 4097) + `"}`:          "reason has 4097 bytes, the limit is 4096",
		`{"retry":"LEASE","stderr":"` + strings.Repeat("n", 4097) + `"}`:           "stderr has 4097 bytes, the limit is 4096",
		`{"extend":"LEASE","stderr":"s"}`:                                          "extend has no member stderr",
		`{"retry":"LEASE","after_ms":-1}`:                                          `after_ms is not a whole number from 0 up: -1`,
		`{"retry":"LEASE","after_ms":"5"}`:                                         `after_ms is not a whole number from 0 up: "5"`,
		`{"retry":"LEASE","outcome":"A"}`:                                          "retry has no member outcome",
		`{"hold":"LEASE"}`:                                                         "hold has no until",
		`{"hold":"LEASE","until":"tomorrow"}`:                                      `until is not an RFC 3339 date and time up to the year 2261: "tomorrow"`,
		`{"hold":"LEASE","until":"2262-01-01T00:00:00Z"}`:                          `until is not an RFC 3339 date and time up to the year 2261: "2262-01-01T00:00:00Z"`,
		`{"retry":"LEASE","unanswered":1}`:                                         `unanswered is neither true nor false: 1`,
		`{"release":"LEASE","unanswered":null}`:                                    `unanswered is neither true nor false: null`,
		`{"hold":"LEASE","until":"2040-01-01T00:00:00Z","unanswered":true}`:        "hold has no member unanswered",
		`{"ack":"LEASE","outcome":"A","unanswered":true}`:                          "ack has no member unanswered",
		`{"release":"LEASE","hurry":true}`:                                         `there is no member "hurry"`,
		`{"extend":"LEASE","by":"alice"}`:                                          "extend has no member by",
		`{"detach":false}`:                                                         `detach is not true: false`,
		`{"detach":1}`:                                                             `detach is not true: 1`,
		`hello`:                                                                    `the line is no JSON object: "hello"`,
		"{\"ack\":\"\xff\"}":                                                       "the line is not JSON: invalid UTF-8 within \"/ack\" after offset 8",
	} {
		a := readAnswer([]byte(strings.ReplaceAll(line, "LEASE", lease)))
		if a.fault != want {
			t.Errorf("%s:\ngot  %s\nwant %s", line, a.fault, want)
		}
	}
	a := readAnswer([]byte(`{"by":"b","after_ms":99999999999999999999,"reason":"r","stderr":"a\n","retry":"` + lease + `"}`))
	s := a.settlement
	if a.fault != "" || a.kind != settle || s.Verb != queue.Retry || s.Token != (queue.Token{Seq: 42, Fence: 7}) || s.By != "b" || s.Reason != "r" || s.Stderr != "a\n" || s.After < 24*time.Hour {
		t.Errorf("%+v", a)
	}
	for line, want := range map[string]bool{
		`{"release":"` + lease + `"}`: false, `{"release":"` + lease + `","unanswered":false}`: false,
		`{"release":"` + lease + `","unanswered":true}`: true, `{"unanswered":true,"retry":"` + lease + `"}`: true,
	} {
		if a := readAnswer([]byte(line)); a.fault != "" || a.settlement.Unanswered != want {
			t.Errorf("%s: %+v", line, a)
		}
	}
}

// FuzzReadAnswer: whatever is sent is either an answer with all that it needs, or has a
// fault in words that can be shown.
func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"ack":"000000000000002a0000000000000007","outcome":"A","by":"x","note":"y"}`))
	f.Add([]byte(`{"hold":"000000000000002a0000000000000007","until":"2040-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"attach":"a","prefetch":16,"routes":["ROUTE_REVIEW"],"lease_timeout_ms":600000}`))
	f.Add([]byte(`{"detach":true}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a := readAnswer(line)
		s := a.settlement
		switch {
		case a.fault != "":
			if len(a.fault) > 1024 {
				t.Errorf("a fault of %d bytes", len(a.fault))
			}
		case a.kind == settle && s.Verb == queue.Ack && !queue.ValidOutcome(s.Outcome),
			a.kind == settle && s.Verb == queue.Hold && s.Until.IsZero(),
			a.kind != detach && s.Token == (queue.Token{}) && !strings.Contains(string(line), strings.Repeat("0", 32)),
			len(s.By) > maxBy, len(s.Note) > maxText, len(s.Reason) > maxText, len(s.Stderr) > maxText, s.After < 0, a.kind == 0:
			t.Errorf("%s: %+v", line, a)
		}
		if r, err := readAttach(line); err == nil && (r.prefetch < 1 || r.name == "" || len(r.name) > maxName || r.routes == 0 || r.lease < 0) {
			t.Errorf("%s: %+v", line, r)
		}
	})
}

func TestConsumeLeaving(t *testing.T) {
	t.Run("a break keeps the leases, and who comes back has them", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 2)
		c, l := attached(t, d, attachTen)
		first, second := c.lease(t), c.lease(t)
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}`, first)) // no line feed, then the end
		if got := c.rest(t); len(got) != 1 || !strings.HasPrefix(got[0], `{"event":"settled"`) {
			t.Errorf("got %v", got)
		}
		if st := d.status(t); st.Done != 1 || st.Leased != 1 {
			t.Errorf("%+v", st)
		}
		again := connect(t, l)
		again.ask(t, attachTen)
		line := again.next(t)
		if token(t, line) != second || !strings.Contains(line, `"redelivered":true`) {
			t.Errorf("got %s", line)
		}
		again.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}`+"\n", second))
		if got := again.next(t); !strings.HasPrefix(got, `{"event":"settled"`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("what is settled is not told of any more", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 1)
		c, l := attached(t, d, attachTen)
		lease := c.lease(t)
		c.rest(t)
		// Who comes back answers at once, while it is about to be told of its lease again.
		slow := make(chan struct{})
		d.change(func() { d.slow = slow })
		again := connect(t, l)
		again.ask(t, attachTen)
		again.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}`+"\n", lease))
		if got := again.next(t); !strings.HasPrefix(got, `{"event":"settled"`) {
			t.Errorf("got %s", got)
		}
		d.change(func() { d.slow = nil })
		close(slow)
		d.put(t, 2, 2)
		if got := again.next(t); !strings.Contains(got, `"seq":2`) {
			t.Errorf("got %s", got)
		}
	})
	t.Run("half a line at the end is told and nothing of it done", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 1)
		c, _ := attached(t, d, attachOne)
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A`, c.lease(t)))
		want(t, c.rest(t), `{"event":"error","code":"USAGE","line":2,"error":"the stream ended before the line did"}`)
		if st := d.status(t); st.Done != 0 || st.Leased != 1 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("a detach puts back, says so and closes", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 3)
		c, l := attached(t, d, attachTen)
		c.lease(t)
		c.lease(t)
		c.send(t, `{"detach":true}`+"\n")
		var last string
		for c.in.Scan() {
			last = c.in.Text()
		}
		if last != `{"event":"detached"}` {
			t.Errorf("the last line is %s", last)
		}
		if st := d.status(t); st.Ready != 3 {
			t.Errorf("%+v", st)
		}
		connect(t, l).ask(t, attachOne)
	})
	t.Run("answers that nobody knows of end the connection without a word", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 1)
		c, _ := attached(t, d, attachOne)
		lease := c.lease(t)
		d.mu.Lock()
		d.err = fmt.Errorf("commit: %w", queue.ErrFailed)
		d.mu.Unlock()
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}`+"\n", lease))
		if all, _ := io.ReadAll(c); len(all) != 0 {
			t.Errorf("got %q", all)
		}
	})
	t.Run("answers that find no room are refused and may come again", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 1)
		c, _ := attached(t, d, attachOne)
		lease := c.lease(t)
		for _, one := range []struct {
			err        error
			send, want string
		}{
			{queue.ErrNoRoom, `{"ack":"LEASE","outcome":"A"}`, `{"event":"refused","lease":"LEASE","code":"STORAGE_UNAVAILABLE","error":"no room to store"}`},
			{queue.ErrNoRoom, `{"extend":"LEASE"}`, `{"event":"refused","lease":"LEASE","code":"STORAGE_UNAVAILABLE","error":"no room to store"}`},
			{queue.ErrDraining, `{"release":"LEASE"}`, `{"event":"refused","lease":"LEASE","code":"DRAINING","error":"shutting down"}`},
			{nil, `{"ack":"LEASE","outcome":"A"}`, `{"event":"settled","lease":"LEASE","seq":1}`},
		} {
			d.mu.Lock()
			d.err = one.err
			d.mu.Unlock()
			c.send(t, strings.ReplaceAll(one.send, "LEASE", lease)+"\n")
			if got := c.next(t); got != strings.ReplaceAll(one.want, "LEASE", lease) {
				t.Errorf("got %s", got)
			}
		}
	})
}

func TestConsumeDrain(t *testing.T) {
	t.Run("is announced, answers are taken until the close, leases stay", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 2)
		c, l := attached(t, d, attachTen)
		first, second := c.lease(t), c.lease(t)
		d.change(func() { d.draining = true })
		if got := c.next(t); got != `{"event":"draining"}` {
			t.Errorf("got %s", got)
		}
		d.put(t, 3, 3)
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}`+"\n", first))
		if got := c.next(t); !strings.HasPrefix(got, `{"event":"settled"`) {
			t.Errorf("got %s", got)
		}
		c.send(t, fmt.Sprintf(`{"ack":%q,"outcome":"A"}`+"\n", second)) // on its way when the end comes
		l.cancel()
		if err := l.wait(t); err != nil {
			t.Error(err)
		}
		if got := c.next(t); !strings.HasPrefix(got, `{"event":"settled"`) {
			t.Errorf("got %s", got)
		}
		if c.in.Scan() {
			t.Errorf("got %s", c.in.Text())
		}
		if st := d.status(t); st.Done != 2 || st.Ready != 1 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("an answer of the last moment is settled and said to be, or it is not read", func(t *testing.T) {
		taken, left := 0, 0
		for _, after := range []time.Duration{0, drainGrace - 1, drainGrace, drainGrace + 1, drainGrace + lastWords} {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				d.put(t, 1, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				peer, done := consumePipe(ctx, consumeServer(t, d, ConsumeOptions{}))
				io.WriteString(peer, attachOne+"\n")
				lines := make(chan string, 9)
				go func() {
					defer close(lines)
					for in := bufio.NewScanner(peer); in.Scan(); {
						lines <- in.Text()
					}
				}()
				<-lines // attached
				lease := token(t, <-lines)
				cancel()
				<-time.After(after) // of the bubble's time
				_, unread := fmt.Fprintf(peer, `{"ack":%q,"outcome":"A"}`+"\n", lease)
				<-done
				_ = peer.Close()
				said := ""
				for line := range lines {
					said += line
				}
				settled := strings.HasPrefix(said, `{"event":"settled"`)
				if st := d.status(t); settled != (unread == nil) || settled != (st.Done == 1) || settled != (st.Leased == 0) {
					t.Errorf("after %v: read %v, told %q, %+v", after, unread == nil, said, st)
				}
				if settled {
					taken++
				} else {
					left++
				}
			})
		}
		if taken < 2 || left < 2 {
			t.Errorf("%d were taken, %d were not", taken, left)
		}
	})
	t.Run("is held up by nobody", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.put(t, 1, 9)
			ctx, cancel := context.WithCancel(t.Context())
			peer, done := consumePipe(ctx, consumeServer(t, d, ConsumeOptions{}))
			io.WriteString(peer, attachTen+"\n")
			synctest.Wait() // it takes nothing, not even that it is attached
			began := time.Now()
			cancel()
			<-done
			if took := time.Since(began); took > drainGrace+2*lastWords {
				t.Errorf("it took %v", took)
			}
			if st := d.status(t); st.Leased != 9 {
				t.Errorf("%+v", st)
			}
		})
	})
}

// consumePipe connects a consumer by a pipe without a buffer, for a bubble.
func consumePipe(ctx context.Context, s *ConsumeServer) (peer net.Conn, done <-chan struct{}) {
	a, b := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c := &Conn{Conn: b}
		defer c.Close()
		s.handle(ctx, c)
	}()
	return a, ended
}

func TestBadConsumers(t *testing.T) {
	t.Run("one that takes nothing is cut off when what it has has run out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			d.put(t, 1, 60)
			s := consumeServer(t, d, ConsumeOptions{})
			deaf, done := consumePipe(t.Context(), s)
			in := bufio.NewScanner(deaf)
			io.WriteString(deaf, `{"attach":"deaf","prefetch":50,"lease_timeout_ms":600000}`+"\n")
			in.Scan()
			began := time.Now()
			other, end := context.WithCancel(t.Context())
			peer, left := consumePipe(other, s)
			go io.WriteString(peer, `{"attach":"other","prefetch":4}`+"\n")
			more := bufio.NewScanner(peer)
			for range 5 {
				if !more.Scan() {
					t.Fatal("another consumer is not served")
				}
			}
			<-done
			if took := time.Since(began); took < 599*time.Second || took > 1201*time.Second { // from the last that it took
				t.Errorf("it was cut off after %v", took)
			}
			if d.names["deaf"] || !d.names["other"] {
				t.Errorf("attached: %v", d.names)
			}
			end()
			<-left
		})
	})
	t.Run("one that talks and does not listen is not read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			peer, done := consumePipe(t.Context(), consumeServer(t, d, ConsumeOptions{}))
			in := bufio.NewScanner(peer)
			io.WriteString(peer, attachOne+"\n")
			in.Scan()
			written := 0
			peer.SetWriteDeadline(time.Now().Add(time.Second))
			for {
				n, err := io.WriteString(peer, strings.Repeat("{}\n", 100))
				written += n
				if err != nil {
					break
				}
			}
			// A line of 3 bytes has a reply of some 130.
			if limit := 4 * unsentLimit / 40; written > limit {
				t.Errorf("%d bytes were read, more than %d", written, limit)
			}
			<-done
		})
	})
	t.Run("one that vanishes in a line leaves nothing of it", func(t *testing.T) {
		d := newDesk(t)
		d.put(t, 1, 1)
		c, l := attached(t, d, attachOne)
		c.send(t, fmt.Sprintf(`{"ack":%q,`, c.lease(t)))
		c.Close()
		again := connect(t, l)
		for got := ""; !strings.HasPrefix(got, `{"event":"attached"`); {
			again.send(t, attachOne+"\n")
			got = again.next(t)
		}
		again.lease(t)
		if st := d.status(t); st.Done != 0 || st.Leased != 1 {
			t.Errorf("%+v", st)
		}
	})
}
