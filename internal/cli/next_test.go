package cli

import (
	"os/exec"
	"strings"
	"testing"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// TestShellWord: what is suggested can be typed, and says what it means.
func TestShellWord(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to read the words")
	}
	for _, s := range []string{
		"ACME", "entity-17", "2026/11@x_y%+:,.", "ACME Corp.", "it's", `a"b`, "$HOME", "`id`", "*", "~", "a\\b", "für", "日本", "",
		"\x1b[2J", "a\nb", "\t", "\u202egro", "a\u00a0b", "-x", "a;b", "\xff",
	} {
		word := shellWord(s)
		if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == '\u202e' || r == '\x7f' }) {
			t.Errorf("%q is written %q, which steers a terminal", s, word)
		}
		out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+word).Output()
		if s == "-x" {
			out, err = exec.CommandContext(t.Context(), bash, "-c", "printf -- "+word).Output()
		}
		if err != nil || string(out) != s {
			t.Errorf("%q is written %s, which bash reads as %q (%v)", s, word, out, err)
		}
	}
}

func TestNext(t *testing.T) {
	late := []api.Oldest{{Seq: 7, AgeMS: 1000}, {Seq: 8, AgeMS: 3_600_000}}
	two := []api.Oldest{{Seq: 7, AgeMS: 2000, Route: "AUTO_RESOLVE"}, {Seq: 9, AgeMS: 1000, Route: "ROUTE_REVIEW"}}
	nobody := []api.Route{{Route: "AUTO_RESOLVE", InProcess: true}, {Route: "ROUTE_REVIEW"}}
	for _, c := range []struct {
		st   api.Status
		want string // of two lines, with a "|" between
	}{
		{api.Status{}, ""},
		{api.Status{Oldest: late[:1]}, ""},
		{api.Status{Oldest: late}, "breakwater why 8"},
		{api.Status{Leased: 2, Ready: 1, Oldest: late[:1]}, ""},
		{api.Status{Leased: 2}, "breakwater leases list"},
		{api.Status{Leased: 2, Ready: 3}, "breakwater leases list"}, // which come behind what is leased
		{api.Status{Scheduled: 1}, "breakwater why KEY, with the partition key that is missed: what there is waits for its not_before"},
		{api.Status{Scheduled: 1, Ready: 1, Oldest: late[:1]}, ""},
		{api.Status{Scheduled: 1, HeldKeys: 1}, "breakwater keys list --held"},
		{api.Status{BlockedKeys: 1, Intake: api.Intake{Intake: api.IntakeWaiting, Saturated: "min_free_bytes"}}, "breakwater doctor"},
		{api.Status{BlockedKeys: 1, Intake: api.Intake{Intake: api.IntakeFull, Saturated: "max_store_bytes"}}, "breakwater doctor"},
		{api.Status{BlockedKeys: 1, Intake: api.Intake{Intake: api.IntakeFull, Saturated: "max_dead_letters"}}, "breakwater dlq list --group"},
		{api.Status{BlockedKeys: 1, Intake: api.Intake{Intake: api.IntakeFull, Saturated: "max_backlog"}}, "breakwater keys list --blocked"},
		{api.Status{BlockedKeys: 1, Intake: api.Intake{Intake: api.IntakeOpen, Saturated: "min_free_bytes"}}, "breakwater keys list --blocked"},
		{api.Status{Oldest: late, Dead: 1}, "breakwater dlq list"},
		{api.Status{Oldest: late, Dead: 1, HeldKeys: 1}, "breakwater keys list --held"},
		{api.Status{Oldest: late, Dead: 1, OperatorHolds: 1}, "breakwater keys list --held"},
		{api.Status{Oldest: late, Dead: 1, OperatorHolds: 1, BlockedKeys: 1}, "breakwater keys list --blocked"},
		{api.Status{BlockedKeys: 1, Paused: &api.Pause{}}, "breakwater resume"},
		{api.Status{Oldest: two, Routes: nobody}, "breakwater why 9"},
		{api.Status{Oldest: two, Routes: nobody, BlockedKeys: 1, HeldKeys: 1}, "breakwater keys list --blocked|breakwater why 9"},
		{api.Status{Oldest: two, Routes: nobody, BlockedKeys: 153, HeldKeys: 153}, "breakwater keys list --blocked|breakwater why 9"},
		{api.Status{BlockedKeys: 5000}, "breakwater dlq list --group"}, // nothing is open behind them
		{api.Status{BlockedKeys: 5000, Damaged: 1}, "breakwater keys list --blocked"},
		{api.Status{BlockedKeys: 1}, "breakwater keys list --blocked"},
		{api.Status{Oldest: two, Routes: nobody, HeldKeys: 1, Dead: 1}, "breakwater why 9"},
		{api.Status{Oldest: two, Routes: nobody, Paused: &api.Pause{}}, "breakwater resume"},
		{api.Status{Oldest: two, Routes: nobody, Draining: true}, ""},
		{api.Status{Oldest: two[:1], Routes: nobody}, ""}, // nothing of that route waits
		{api.Status{Oldest: two, Routes: []api.Route{{Route: "ROUTE_REVIEW", Consumers: 1}}}, ""},
		{api.Status{Oldest: two, Routes: []api.Route{{Route: "ROUTE_REVIEW", InProcess: true}}}, ""},
		{api.Status{Oldest: two, Unavailable: []api.Outage{{Route: "ROUTE_REVIEW"}}}, "breakwater why 9"},
	} {
		if got := strings.Join(nextOfStatus(&c.st), "|"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.st, got, c.want)
		}
	}
	for key, want := range map[string]string{
		"ACME": "breakwater why ACME", "a b": "breakwater why 'a b'", "17": "breakwater why --partition 17", "017": "breakwater why 017",
		"-x": "breakwater why -- -x", "": "",
	} {
		if got := nextOfKeys(&api.Key{Key: key}, 0); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	if got := nextOfKeys(&api.Key{Key: "a\x00", Seq: 3}, 1); got != "breakwater why 3" {
		t.Errorf("a key that cannot be typed: %q", got)
	}
	if got := nextOfKeys(nil, 0); got != "" {
		t.Errorf("no key: %q", got)
	}
}

// TestNext_many: where dead letters block many keys, the way to what mends them is by
// what the letters have in common.
func TestNext_many(t *testing.T) {
	for _, c := range []struct {
		first   api.Key
		blocked int
		want    string
	}{
		{api.Key{Key: "A", Letter: &api.KeyLetter{}}, 1, "breakwater why A"},
		{api.Key{Key: "A", Letter: &api.KeyLetter{}}, 2, "breakwater dlq list --group"},
		{api.Key{Key: "A", Letter: &api.KeyLetter{}, Damaged: 3}, 2, "breakwater why A"},
		{api.Key{Key: "A", Damaged: 3}, 2, "breakwater why A"},
	} {
		if got := nextOfKeys(&c.first, c.blocked); got != c.want {
			t.Errorf("%+v, %d blocked: %q, want %q", c.first, c.blocked, got, c.want)
		}
	}
	for _, c := range []struct {
		groups   []api.LetterGroup
		selected string
		want     string
	}{
		{nil, "", ""},
		{[]api.LetterGroup{{Code: "REJECTED"}, {Code: "ATTEMPTS_EXHAUSTED"}}, "", "mend the cause, then breakwater dlq replay --code REJECTED --dry-run"},
		{[]api.LetterGroup{{Code: "REJECTED"}}, " --key=A", "mend the cause, then breakwater dlq replay --code REJECTED --key=A --dry-run"},
		{[]api.LetterGroup{{Code: "POISON_MESSAGE", FirstSeq: 3}, {Code: "REJECTED"}}, "", "mend the cause, then breakwater dlq replay --code REJECTED --dry-run"},
		{[]api.LetterGroup{{Code: "POISON_MESSAGE", FirstSeq: 3}, {Code: "IDEMPOTENCY_CONFLICT", FirstSeq: 1}}, "", "breakwater dlq show 3"},
	} {
		if got := nextOfGroups(&api.LetterGroups{Items: c.groups}, c.selected); got != c.want {
			t.Errorf("%+v: %q, want %q", c.groups, got, c.want)
		}
	}
}

// TestKeysText: a key that a dead letter blocks is not an open one that waits, where
// nothing is open behind the letter.
func TestKeysText(t *testing.T) {
	for _, c := range []struct {
		st   api.Status
		want string
	}{
		{api.Status{OpenKeys: 1, HeldKeys: 1, BlockedKeys: 1}, "1 of 1 open key waits; 1 blocked by dead letters"},
		{api.Status{OpenKeys: 200, HeldKeys: 160, BlockedKeys: 153}, "160 of 200 open keys wait; 153 blocked by dead letters"},
		{api.Status{BlockedKeys: 5000}, "0 of 0 open keys wait; 5,000 blocked by dead letters, with nothing open behind them"},
		{api.Status{OpenKeys: 3, BlockedKeys: 1}, "0 of 3 open keys wait; 1 blocked by dead letters, with nothing open behind it"},
		{api.Status{OpenKeys: 20, HeldKeys: 10, BlockedKeys: 50}, "10 of 20 open keys wait; 50 blocked by dead letters, at least 40 of them with nothing open"},
	} {
		if got := keysText(&c.st); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestNext_of_every_reason: what can be mended names a command.
func TestNext_of_every_reason(t *testing.T) {
	nothing := map[queue.Reason]bool{queue.WhyNotDue: true, queue.WhyDraining: true, queue.WhyAside: true, queue.WhyNothing: true, queue.WhySettled: true}
	for _, reason := range []queue.Reason{
		queue.WhyDead, queue.WhyBlocked, queue.WhyDamaged, queue.WhyOperator, queue.WhyRetry, queue.WhyHold, queue.WhyLeased, queue.WhyBehind,
		queue.WhyNotDue, queue.WhyPaused, queue.WhyDraining, queue.WhyUnavailable, queue.WhyNoConsumer, queue.WhyConsumers, queue.WhyAside,
		queue.WhyNext, queue.WhyNothing, queue.WhySettled,
	} {
		w := api.Why{PartitionKey: "A", Causes: []api.Cause{{Reason: string(reason), Seq: 3, Kind: api.LeaseOfConsumer, Owner: "ui"}}}
		if got := nextOfWhy(&w); (got == "") != nothing[reason] || got != "" && !strings.Contains(got, "breakwater ") {
			t.Errorf("%s: %q", reason, got)
		}
	}
}

// TestAim: what is suggested asks whom the command asked that suggests it.
func TestAim(t *testing.T) {
	e := &env{Process: Process{Args: []string{"breakwater"}}}
	for _, c := range []struct{ given, text, want string }{
		{"status", "breakwater why 3", "breakwater why 3"},
		{"status --socket s.sock", "breakwater why -- -dash", "breakwater why --socket s.sock -- -dash"},
		{"keys list --socket=s.sock", "breakwater keys release ACME", "breakwater keys release --socket s.sock ACME"},
		{"--config|a b.hcl|status", "breakwater keys list --blocked", "breakwater --config 'a b.hcl' keys list --blocked"},
		{"status --config c.hcl --socket s.sock", `start it with "breakwater serve", or breakwater why 1`, `start it with "breakwater --config c.hcl serve", or breakwater why --socket s.sock 1`},
		{"status --file|a b.db", "breakwater why -- -dash", "breakwater why --file 'a b.db' -- -dash"},
		{"status --file copy.db", "breakwater resume", "breakwater resume"},
		{"status --file copy.db", "breakwater audit verify, then breakwater keys list --blocked", "breakwater audit verify --file copy.db, then breakwater keys list --file copy.db --blocked"},
		{"status --file copy.db", "breakwater status", "breakwater status --file copy.db"},
		{"consume --name n --socket consume.sock", "breakwater doctor", "breakwater doctor"}, // it is another socket
		{"status --socket s.sock", "breakwater consume --name NAME --routes ROUTE_REVIEW", "breakwater consume --name NAME --routes ROUTE_REVIEW"},
		{"status --socket s.sock", `see "breakwater dlq show --help"`, `see "breakwater dlq show --help"`},
		{"status --socket s.sock", "breakwater shows nothing", "breakwater shows nothing"},
		// A key or a name may look like a command.
		{"status --socket s.sock", "breakwater why " + shellWord("breakwater why x"), "breakwater why --socket s.sock 'breakwater why x'"},
		{"status --socket s.sock", "breakwater why " + shellWord("it's breakwater why x"), `breakwater why --socket s.sock 'it'\''s breakwater why x'`},
		{"status --socket s.sock", "breakwater why " + shellWord("\x1b' breakwater why x"), `breakwater why --socket s.sock $'\033\' breakwater why x'`},
		{"status --socket s.sock", "breakwater leases revoke 3 --owner=" + shellWord("a breakwater why x"), "breakwater leases revoke --socket s.sock 3 --owner='a breakwater why x'"},
	} {
		words := strings.Fields(c.given)
		if strings.Contains(c.given, "|") { // a value with blanks
			words = strings.Split(strings.ReplaceAll(c.given, "status --file|", "status|--file|"), "|")
		}
		app := e.app()
		line, err := arrange(app, append([]string{"breakwater"}, words...))
		if err != nil {
			t.Fatalf("%s: %v", c.given, err)
		}
		a := aimOf(app, line)
		if got := a.at(c.text); got != c.want {
			t.Errorf("%s: %s\nbecomes %s\nwant    %s", c.given, c.text, got, c.want)
		}
	}
}

// Who put an exception off has not failed it.
func TestNextOfWhy_hold(t *testing.T) {
	w := api.Why{PartitionKey: "-a b", Causes: []api.Cause{{Reason: string(queue.WhyHold), Seq: 3}}}
	if got := nextOfWhy(&w); got != "breakwater show 3, which has the answer that put it off; or breakwater keys release --waits -- '-a b' to go on now" {
		t.Error(got)
	}
}
