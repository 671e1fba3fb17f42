package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCauses: what the store knows and what the process knows, told in one list, what
// a person can change first.
func TestCauses(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	review := func(s Serving) *Circumstances {
		s.Route = RouteReview
		return &Circumstances{Running: true, MaxAttempts: 3, Routes: []Serving{{Route: AutoResolve, InProcess: true}, s}}
	}
	key := func(change func(*Key)) *Key {
		k := &Key{Name: "A", State: KeyReady, Open: 2, First: 1, Route: RouteReview}
		if change != nil {
			change(k)
		}
		return k
	}
	first, second := &Exception{Stored: Stored{Seq: 1}, State: Ready}, &Exception{Stored: Stored{Seq: 2}, State: Held}
	handler := Serving{InProcess: true}
	held := &Key{Name: "A", State: KeyHeld, Open: 2, First: 1, Route: RouteReview,
		Hold: &KeyHold{By: "olga"}, Wait: &KeyWait{Seq: 1, Until: at, Retry: true, Failed: 2}}
	for _, c := range []struct {
		what string
		s    Standing
		c    *Circumstances
		want string
	}{
		{"its turn", Standing{Exception: first, Key: key(nil), Ahead: 4}, review(handler), "next 4"},
		{"its turn, far away", Standing{Key: key(nil), Ahead: 4, AheadMore: true}, review(handler), "next 4+"},
		{"not the first", Standing{Exception: second, Key: key(nil)}, review(handler), "behind of 1"},
		{"everything at once", Standing{Exception: second, Key: held, Paused: &Pause{By: "bob"}}, review(Serving{}),
			"operator by olga; retry of 1 2/3; behind of 1; paused by bob; no_consumer"},
		{"nobody there", Standing{Key: key(nil)}, review(Serving{}), "no_consumer"},
		{"no room", Standing{Key: key(nil)}, review(Serving{Consumers: 2}), "consumers_full 2"},
		{"consumers with room", Standing{Key: key(nil)}, review(Serving{Consumers: 2, Room: 1}), "next 0"},
		{"handler down", Standing{Key: key(nil)}, review(Serving{InProcess: true, Down: true, Text: "refused"}), "handler_unavailable (refused)"},
		{"draining", Standing{Key: key(nil)}, &Circumstances{Running: true, Draining: true}, "draining"},
		{"a file", Standing{Key: key(nil)}, &Circumstances{}, "next 0"},
		{"aside", Standing{Key: key(func(k *Key) { k.Aside = &KeyAside{Owner: Owner{Kind: Consumer, Name: "ui"}} })},
			review(Serving{Consumers: 1, Room: 1}), "aside from ui"},
		{"leased", Standing{Exception: &Exception{Stored: Stored{Seq: 1}, State: Leased, Owner: "w-1"}, Key: key(nil)}, review(handler), "leased of 1 from w-1"},
		{"behind what is leased", Standing{Exception: &Exception{Stored: Stored{Seq: 2}, State: Ready},
			Key: key(func(k *Key) { k.Holder = &KeyHolder{Owner: Owner{Kind: Worker, Name: "w-1"}, Seq: 1} })}, review(handler), "leased of 1 from w-1; behind of 1"},
		{"held, with nothing open", Standing{Key: &Key{Name: "A", Hold: &KeyHold{By: "olga"}}, Paused: &Pause{By: "bob"}}, review(Serving{}), "operator by olga"},
		{"only scheduled", Standing{Due: &KeyDue{Seq: 7, Time: at}}, review(handler), "not_due of 7"},
		{"dead", Standing{Exception: &Exception{Stored: Stored{Seq: 3}, State: Dead, Code: CodePoison, Field: "currency"}}, review(handler), "dead of 3 POISON_MESSAGE (currency)"},
		{"done", Standing{Exception: &Exception{Stored: Stored{Seq: 3}, State: Done, Outcome: "POSTED"}}, review(handler), "settled of 3 POSTED"},
		{"damaged", Standing{Key: key(func(k *Key) { k.State, k.Damage = KeyBlocked, 1 })}, review(handler), "damaged of 1"},
	} {
		var got []string
		for _, cause := range c.s.Causes(c.c) {
			got = append(got, causeText(&cause))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", c.what, text, c.want)
		}
	}
}

// TestKeyPage_Causes: a row of a list names what keeps its key, and nothing for one that
// only waits its turn.
func TestKeyPage_Causes(t *testing.T) {
	nobody := &Circumstances{Running: true, Routes: []Serving{{Route: RouteReview}}}
	ready := Key{Name: "A", State: KeyReady, Open: 1, First: 1, Route: RouteReview}
	for _, c := range []struct {
		what string
		p    KeyPage
		k    Key
		c    *Circumstances
		want string
	}{
		{"its turn", KeyPage{}, ready, &Circumstances{}, "[]"},
		{"nobody there", KeyPage{}, ready, nobody, "[no_consumer]"},
		{"paused", KeyPage{Paused: &Pause{}}, ready, nobody, "[paused no_consumer]"},
		{"held", KeyPage{Paused: &Pause{}}, Key{Name: "B", Hold: &KeyHold{}}, nobody, "[operator]"},
		{"nothing known", KeyPage{}, Key{Name: "C"}, nobody, "[]"},
	} {
		reasons := []Reason{}
		for _, cause := range c.p.Causes(&c.k, c.c) {
			reasons = append(reasons, cause.Reason)
		}
		if got := fmt.Sprint(reasons); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// causeText spells a cause.
func causeText(c *Cause) string {
	text := string(c.Reason)
	if c.Seq != 0 {
		text += fmt.Sprint(" of ", c.Seq)
	}
	if c.Owner != "" {
		text += " from " + c.Owner
	}
	if c.By != "" {
		text += " by " + c.By
	}
	if c.Code != "" {
		text += " " + string(c.Code)
	}
	if c.Outcome != "" {
		text += " " + c.Outcome
	}
	if c.Count != 0 || c.Reason == WhyNext {
		text += fmt.Sprint(" ", c.Count)
	}
	if c.Most != 0 {
		text += fmt.Sprint("/", c.Most)
	}
	if c.More {
		text += "+"
	}
	if c.Text != "" {
		text += " (" + c.Text + ")"
	}
	return text
}

func TestKeyState(t *testing.T) {
	for _, s := range KeyStates {
		if got, ok := ParseKeyState(s.String()); !ok || got != s {
			t.Errorf("%s is read as %v", s, got)
		}
	}
	if _, ok := ParseKeyState("unknown"); ok || KeyState(0).String() != "unknown" || KeyState(99).String() != "unknown" {
		t.Error("what is no state is one")
	}
	if !slices.IsSorted(KeyStates[:]) {
		t.Error("the states are not in the order of their numbers, which is that of a list")
	}
}
