package api

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	for _, c := range []struct {
		t    time.Time
		want string
	}{
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `"2026-01-02T03:04:05.000000Z"`},
		{time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, zone), `"2026-01-02T01:04:05.999999Z"`},
	} {
		text, err := json.Marshal(Time{c.t})
		if err != nil || string(text) != c.want {
			t.Errorf("%v is written %s, %v", c.t, text, err)
		}
		var back Time
		if err := json.Unmarshal(text, &back); err != nil || !back.Equal(c.t.Truncate(time.Microsecond)) {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
	}
}

func TestLengthText(t *testing.T) {
	for in, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 3*time.Hour + 4*time.Minute: "3h4m", 49 * time.Hour: "2d1h",
		729*24*time.Hour + time.Hour: "729d1h", 62852 * 24 * time.Hour: "172y72d",
	} {
		if got := LengthText(in); got != want {
			t.Errorf("LengthText(%v) = %s, want %s", in, got, want)
		}
	}
}

// A time or a member that does not apply is absent, a list is never null.
func TestAbsent(t *testing.T) {
	for _, c := range []struct {
		doc  any
		want string
	}{
		{List[int]{Items: []int{}}, `{"items":[]}`},
		{List[int]{Items: []int{1}, Next: "7"}, `{"items":[1],"next":"7"}`},
		{Exception{Seq: 1, State: "ready"}, `{"seq":1,"state":"ready","deliveries":0,"failed_attempts":0,"line_bytes":0}`},
		{PauseState{}, `{}`},
		{Result{Seq: 3}, `{"seq":3}`},
		{Problem{Title: "Not Found", Status: 404, Code: "NOT_FOUND"}, `{"title":"Not Found","status":404,"code":"NOT_FOUND"}`},
	} {
		if text, err := json.Marshal(c.doc); err != nil || string(text) != c.want {
			t.Errorf("%s, %v, want %s", text, err, c.want)
		}
	}
}

// Every member of every document is in snake_case and named by a tag.
func TestMembers_are_in_snake_case(t *testing.T) {
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*(,omitzero|,omitempty)?$`)
	seen := 0
	for _, doc := range []any{
		Problem{}, Health{}, Readiness{}, Status{}, Pause{}, Oldest{}, Audit{}, Store{}, Exception{}, Detail{}, Act{}, PauseState{},
		DrainState{}, ReloadState{}, LettersAct{}, Letters{}, Replayed{}, Discarded{}, Result{}, EditAct{}, Edited{}, Content{}, LetterGroups{}, LetterGroup{}, KeysAct{}, Keys{}, VerifyAct{}, Checkpoint{}, Witness{}, Stamp{}, Balance{},
		Verification{}, Finding{}, List[int]{}, Lease{}, LeasesAct{}, LeaseRef{}, Revoked{}, Revocation{},
		AtRisk{}, Ages{}, Ageing{}, Recent{}, Route{}, Key{}, Amount{}, KeyLetter{}, KeyHold{}, KeyWait{}, KeyHolder{}, KeyAside{}, Why{}, Cause{},
	} {
		typ := reflect.TypeOf(doc)
		for i := range typ.NumField() {
			f := typ.Field(i)
			if seen++; !f.Anonymous && !snake.MatchString(f.Tag.Get("json")) {
				t.Errorf("%s.%s: tag %q", typ.Name(), f.Name, f.Tag.Get("json"))
			}
		}
	}
	if seen < 80 {
		t.Errorf("only %d members", seen)
	}
}
