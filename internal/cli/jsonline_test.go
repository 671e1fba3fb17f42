package cli

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"breakwater/internal/control/api"
)

func TestSetMember_changes_nothing_else(t *testing.T) {
	const line = `{ "a" : 1 ,"variance_amount":12, "n\u0061me":"x", "o": {"a": [1, 2]} ,"priority":5}`
	for _, c := range []struct{ name, value, want string }{
		{"name", "y\"\u202e", `{ "a" : 1 ,"variance_amount":12, "n\u0061me":"y\"` + "\u202e" + `", "o": {"a": [1, 2]} ,"priority":5}`},
		{"variance_amount", "12.00", `{ "a" : 1 ,"variance_amount":"12.00", "n\u0061me":"x", "o": {"a": [1, 2]} ,"priority":5}`},
		{"priority", "0", `{ "a" : 1 ,"variance_amount":12, "n\u0061me":"x", "o": {"a": [1, 2]} ,"priority":0}`},
		{"a", `{"b":2}`, `{ "a" : {"b":2} ,"variance_amount":12, "n\u0061me":"x", "o": {"a": [1, 2]} ,"priority":5}`},
		{"note", "new", `{ "a" : 1 ,"variance_amount":12, "n\u0061me":"x", "o": {"a": [1, 2]} ,"priority":5,"note":"new"}`},
	} {
		got, err := setMember([]byte(line), c.name, c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("%s=%s:\n%s (%v), want\n%s", c.name, c.value, got, err, c.want)
		}
	}
	for _, c := range []struct{ line, name, value string }{
		{line, "priority", "high"},
		{line, "a", "x"},
		{line, "b", "\xff"},
		{"not JSON", "a", "1"},
		{`[1]`, "a", "1"},
		{`{"a":1,"a":2}`, "a", "1"},
		{`{"a":1}{}`, "a", "1"},
		{`{"a":1`, "a", "1"},
	} {
		if got, err := setMember([]byte(c.line), c.name, c.value); err == nil {
			t.Errorf("%s: %s=%s gives %s", c.line, c.name, c.value, got)
		}
	}
	if got, err := setMember([]byte("{ }"), "currency", "EUR"); err != nil || string(got) != `{"currency":"EUR" }` {
		t.Errorf("%s, %v", got, err)
	}
}

func TestUnsetMember_takes_its_comma_along(t *testing.T) {
	for _, c := range []struct{ line, name, want string }{
		{`{"a":1}`, "a", `{}`},
		{`{ "a":1 , "b":2}`, "a", `{ "b":2}`},
		{`{"a":1, "b":2 ,"c":3}`, "b", `{"a":1 ,"c":3}`},
		{`{"a":1, "b":2 }`, "b", `{"a":1 }`},
	} {
		got, err := unsetMember([]byte(c.line), c.name)
		if err != nil || string(got) != c.want || !jsontext.Value(got).IsValid() {
			t.Errorf("%s without %s: %s, %v", c.line, c.name, got, err)
		}
	}
	if got, err := unsetMember([]byte(`{"a":1}`), "b"); err == nil {
		t.Errorf("%s", got)
	}
}

func TestChangesOf_two_lines(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     []memberChange
	}{
		{`{"a":1, "b":"x"}`, `{"b":"x","a":1}`, nil},
		{`{"a":1,"b":2}`, `{"b":3,"c":4}`, []memberChange{{"a", "1", ""}, {"b", "2", "3"}, {"c", "", "4"}}},
		{`not JSON`, `{"a":1}`, []memberChange{{"line", "not JSON", `{"a":1}`}}},
		{`{"a":"\ud800"}`, `{"a":1}`, []memberChange{{"line", `{"a":"\ud800"}`, `{"a":1}`}}},
	} {
		if got := changesOf([]byte(c.from), []byte(c.to)); !slices.Equal(got, c.want) {
			t.Errorf("%s → %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestOneLineOf_what_an_editor_leaves(t *testing.T) {
	const line = `{"a" : 1, "b":"x"}`
	for _, c := range []struct{ text, want string }{
		{line + "\n", line},
		{"{\n  \"a\": 1,\n  \"b\": \"x\"\n}\n", line}, // spread, and nothing else
		{"{\n  \"a\": 1.0,\n  \"b\": \"x\"\n}\n", `{"a":1.0,"b":"x"}`},
		{`{"a" : 2, "b":"x"}` + "\r\n", `{"a" : 2, "b":"x"}`},
		{"no\nJSON\n", "no\nJSON"}, // for the gates to refuse
	} {
		got, err := oneLineOf([]byte(c.text), []byte(line))
		if err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}

// A run of 50 a second has had 1,000 letters after 20 seconds, never sooner.
func TestPace_spreads_a_run(t *testing.T) {
	p := pace{perSecond: 50}
	for range 1000 / p.batch() {
		p.did(p.batch())
	}
	if p.batch() != 12 || p.dealt != 996 || p.due() != 19920*time.Millisecond {
		t.Errorf("%d at a time: %d in %s", p.batch(), p.dealt, p.due())
	}
	for _, c := range []struct{ perSecond, batch int }{{0, 1000}, {1, 1}, {3, 1}, {100_000, 1000}} {
		if p := (pace{perSecond: c.perSecond}); p.batch() != c.batch {
			t.Errorf("%d a second: %d at a time", c.perSecond, p.batch())
		}
	}
	if p := (pace{perSecond: maxRate, dealt: 1_000_000_000}); p.due() < time.Hour {
		t.Errorf("a long run: %s", p.due())
	}
}

// What a run keeps of its results is bounded.
func TestOutcome_lists_no_more_than_it_may(t *testing.T) {
	o := outcome{DryRun: true}
	for i := range maxItems + 5 {
		r := api.Result{Seq: uint64(i + 1)}
		o.list([]api.Result{r})
	}
	if len(o.Items) != maxItems || o.MoreItems != 5 {
		t.Errorf("%d items, %d more", len(o.Items), o.MoreItems)
	}
	var in []api.Result
	for _, place := range []string{"4.2", "", "3", "4.1"} {
		r := api.Result{Seq: uint64(9 - len(in))}
		r.Place = place
		in = append(in, r)
	}
	inTurn(in)
	if got := fmt.Sprint(in[0].Seq, in[1].Seq, in[2].Seq, in[3].Seq); got != "7 6 9 8" {
		t.Error(got)
	}
}
