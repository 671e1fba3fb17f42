package handler

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"breakwater/queue"
)

const bearer = "Bearer very-secret-token-1"

func TestHTTP_authorization(t *testing.T) {
	seen := make(chan string, 1)
	r := listen(t, "tcp", func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") })
	file := filepath.Join(t.TempDir(), "token")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	send := func(h *HTTP) string {
		t.Helper()
		if a := h.Handle(t.Context(), hookDelivery()); a.Verb != queue.Ack {
			t.Fatalf("got %+v", a)
		}
		return <-seen
	}
	t.Run("of a file, read each time", func(t *testing.T) {
		h := r.hook(t, "/", HTTPOptions{AuthorizationFile: file})
		for _, text := range []string{bearer + "\n", "Bearer another\r\n", "Bearer third"} {
			put(text)
			if got := send(h); got != strings.TrimSpace(text) {
				t.Errorf("sent %q", got)
			}
		}
	})
	t.Run("of a variable, read once", func(t *testing.T) {
		value := bearer
		h := r.hook(t, "/", HTTPOptions{AuthorizationEnv: "REVIEW", LookupEnv: func(name string) (string, bool) { return value, name == "REVIEW" }})
		value = "Bearer later"
		if got := send(h); got != bearer {
			t.Errorf("sent %q", got)
		}
	})
	t.Run("of the process's environment", func(t *testing.T) {
		t.Setenv("REVIEW_AUTHORIZATION", bearer)
		if got := send(r.hook(t, "/", HTTPOptions{AuthorizationEnv: "REVIEW_AUTHORIZATION"})); got != bearer {
			t.Errorf("sent %q", got)
		}
	})
	t.Run("of the URL", func(t *testing.T) {
		h := newHook(t, HTTPOptions{URL: strings.Replace(r.URL, "://", "://alice:p%40ss@", 1)})
		if got := send(h); got != "Basic YWxpY2U6cEBzcw==" {
			t.Errorf("sent %q", got)
		}
	})
}

func TestHTTP_an_authorization_that_cannot_be_had(t *testing.T) {
	r := listen(t, "tcp", func(http.ResponseWriter, *http.Request) { t.Error("it was posted without") })
	dir := t.TempDir()
	at := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "no such file"},
		{dir, "is not a file"},
		{fifo, "is not a file"},
		{at("all", bearer, 0o604), "can be read by others"},
		{at("group", bearer, 0o620), "can be read by others"},
		{at("empty", "\n", 0o600), "is empty"},
		{at("two", bearer+"\nX: very-secret-token", 0o600), "characters that a header cannot carry"},
		{at("accent", bearer+"é", 0o600), "characters that a header cannot carry"},
		{at("spaces", " "+bearer, 0o600), "spaces around"},
		{at("long", strings.Repeat("x", maxSecret+1), 0o600), "is longer than"},
	} {
		a := r.hook(t, "/", HTTPOptions{AuthorizationFile: c.path}).Handle(t.Context(), hookDelivery())
		if !a.Unavailable || !strings.Contains(a.Reason, c.want) || strings.Contains(a.Reason, "very-secret") {
			t.Errorf("%s: got %+v", c.path, a)
		}
	}
	for want, o := range map[string]HTTPOptions{
		"is not set":        {AuthorizationEnv: "ABSENT"},
		"is empty":          {AuthorizationEnv: "EMPTY"},
		"cannot carry":      {AuthorizationEnv: "TWO"},
		"exclude each othe": {AuthorizationEnv: "REVIEW", AuthorizationFile: "/x"},
		"exclude each":      {AuthorizationEnv: "REVIEW", URL: "http://u:very-secret@h/"},
	} {
		o.LookupEnv = func(name string) (string, bool) {
			v, ok := map[string]string{"EMPTY": "", "TWO": "very-secret\nx", "REVIEW": bearer}[name]
			return v, ok
		}
		if o.URL == "" {
			o.URL = r.URL
		}
		o.Name, o.Timeout = "api", hookTime
		if _, err := NewHTTP(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "very-secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// The other end has the secrets and may give them back: in an error page, as many
// a framework does, or in its answer.
// B53: URLs and authorizations are in no text that is kept.
func TestHTTP_secrets_are_never_in_an_answer(t *testing.T) {
	const password, token = "pass-word-1234", "query-token-1234"
	t.Setenv("REVIEW", bearer)
	for _, status := range []int{200, 302, 404, 429, 500} {
		for _, body := range []string{
			`{"outcome":"POSTED","by":%[1]q,"note":%[1]q}`, `{"retry":true,"reason":%[1]q}`, `{"reject":true,"by":%[1]q,"reason":%[1]q}`, "%s",
		} {
			r := listen(t, "tcp", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", r.RequestURI)
				w.WriteHeader(status)
				user, pass, _ := r.BasicAuth()
				fmt.Fprintf(w, body, strings.Join([]string{r.Header.Get("Authorization"), r.RequestURI, user + ":" + pass, r.FormValue("token")}, " "))
			})
			for _, h := range []*HTTP{
				r.hook(t, "/x?token="+token, HTTPOptions{AuthorizationEnv: "REVIEW"}),
				newHook(t, HTTPOptions{URL: strings.Replace(r.URL, "://", "://alice:"+password+"@", 1) + "/x?token=" + token}),
			} {
				said := fmt.Sprintf("%+v", h.Handle(t.Context(), hookDelivery()))
				for _, secret := range []string{password, token, "very-secret", "YWxpY2U6"} {
					if strings.Contains(said, secret) {
						t.Errorf("%d, %s: %q is in %s", status, body, secret, said)
					}
				}
				if body != "%s" && status == 200 && !strings.Contains(said, redacted) {
					t.Errorf("%d, %s: nothing was taken out of %s", status, body, said)
				}
			}
		}
	}
}

// B53: nor is the beginning of one, where a text was cut within it.
func TestHTTP_secrets_that_were_cut_are_in_no_answer_either(t *testing.T) {
	t.Setenv("REVIEW", bearer)
	for _, status := range []int{200, 500} {
		for _, piece := range []int{4, 8, 12} { // bytes of the secret that are within the limit
			r := listen(t, "tcp", func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				before, after := "", ""
				limit := maxExcerpt
				if status == 200 {
					before, after, limit = `{"outcome":"POSTED","note":"`, `"}`, maxText
				}
				_, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
				_, _ = io.WriteString(w, before+strings.Repeat(" ", limit-piece)+secret+after)
			})
			a := r.hook(t, "/x", HTTPOptions{AuthorizationEnv: "REVIEW"}).Handle(t.Context(), hookDelivery())
			said := a.Reason + strings.TrimSpace(a.Note)
			_, secret, _ := strings.Cut(bearer, " ")
			if shown := strings.Contains(said, secret[:min(piece, minHidden)]); shown != (piece < minHidden) {
				t.Errorf("%d, cut after %d bytes: %q", status, piece, said)
			}
		}
	}
}

func TestHeaderKey(t *testing.T) {
	for key, want := range map[string]string{
		"k1": "k1", "a b": "a b", `"quoted"`: `"quoted"`, "a:b": "a:b",
		":a": ":OmE=:", ":OmE=:": ":Ok9tRT06:", " a": ":IGE=:", "a ": ":YSA=:", "é": ":w6k=:",
		"a\r\nX: 1": ":YQ0KWDogMQ==:", "\x00": ":AA==:", "a\tb": ":YQli:", "\x7f": ":fw==:",
	} {
		if got := headerKey(key); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
	t.Run("any key arrives, and no two look like one", func(t *testing.T) {
		seen := make(chan string, 1)
		r := listen(t, "unix", func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Idempotency-Key") })
		h := r.hook(t, "/", HTTPOptions{})
		byHeader := map[string]string{}
		text := rapid.StringOfN(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune(": \t\r\n\x00=,\"kOm"))), 1, 20, 256)
		rapid.Check(t, func(t *rapid.T) {
			key := text.Draw(t, "key")
			if again := rapid.Bool().Draw(t, "the header of another key"); again {
				key = headerKey(key)
			}
			if a := h.Handle(t.Context(), keyed(key)); a.Verb != queue.Ack {
				t.Fatalf("%q: %+v", key, a)
			}
			got := <-seen
			if other, ok := byHeader[got]; ok && other != key {
				t.Fatalf("%q and %q are both sent as %q", key, other, got)
			}
			byHeader[got] = key
			if got != headerKey(key) {
				t.Fatalf("%q arrived as %q", key, got)
			}
		})
	})
}

func TestIsTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for s, want := range map[string]bool{
		good: true, "cc" + good[2:]: true, good[:53] + "00": true,
		"": false, "t1": false, good[:54]: false, good + "0": false, strings.ToUpper(good): false,
		"ff" + good[2:]: false, "0g" + good[2:]: false, good[:52] + "_01": false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":   false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":   false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-\r\n": false,
	} {
		if got := isTraceparent(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func TestUserAgent(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3": "breakwater/1.2.3", "v1-3-gabc+dirty": "breakwater/v1-3-gabc+dirty", "": "breakwater", "a b": "breakwater", "1\r\nX: y": "breakwater",
	} {
		if got := userAgent(version); got != want {
			t.Errorf("%q: got %q", version, got)
		}
	}
}
