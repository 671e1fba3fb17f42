package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/internal/control/api"
)

// topView is what top shows: the newest answers, and what changed since the ones
// before. It knows no terminal.
type topView struct {
	aim    aim         // whom it asks
	status *api.Status // nil: there was no answer yet
	before *api.Status // the answer before that; nil: there was none
	keys   []api.Key   // those to look at first
	failed error       // why the newest question had no answer; nil: it had one
	since  time.Time   // failed: since when
}

// look is the answer to one question.
type look struct {
	at     time.Time
	status api.Status
	keys   []api.Key
	err    error
}

// take takes an answer. After a failure the last answers stay, and it says how old they
// are.
func (v *topView) take(l look) {
	if l.err != nil {
		if v.failed == nil {
			v.since = l.at
		}
		v.failed = l.err
		return
	}
	v.failed, v.before = nil, v.status
	if v.before != nil && v.before.StartedAt != l.status.StartedAt {
		v.before = nil // another process: its counters are not to be compared
	}
	v.status, v.keys = &l.status, l.keys
}

// tone is how a line is shown.
type tone int

const (
	toneText tone = iota
	toneHead
	toneAlarm // something asks for a person
)

// topLine is one line of the screen, escaped.
type topLine struct {
	text string
	tone tone
}

// lines are what is shown in so many rows; 0: in as many as it takes.
func (v *topView) lines(height int) []topLine {
	var out []topLine
	add := func(t tone, text string) { out = append(out, topLine{oneLine(text), t}) }
	if v.failed != nil {
		add(toneAlarm, fmt.Sprintf("no answer since %s: %v", v.since.UTC().Format("15:04:05Z"), v.failed))
	}
	if v.status == nil {
		return out
	}
	out = append(out, v.summary()...)
	tables := v.tables()
	var foot []topLine
	for i, next := range nextOfStatus(v.status) {
		if i == 0 {
			foot = append(foot, topLine{})
		}
		foot = append(foot, topLine{oneLine("next: " + v.aim.at(next)), toneHead})
	}
	keys := v.keyLines()
	if height > 0 {
		room := height - len(out) - len(foot)
		tables = fit(tables, room-min(len(keys), keyLinesHead+leastKeyLines))
		for _, t := range tables {
			room -= len(t)
		}
		if room <= keyLinesHead {
			keys = nil
		}
		keys = keys[:min(len(keys), max(room, 0))]
	}
	for _, t := range tables {
		out = append(out, t...)
	}
	out = append(append(out, keys...), foot...)
	if height > 0 && len(out) > height {
		out = out[:height]
	}
	return out
}

// fit leaves tables out until the rest has no more lines than there is room for: the
// least needed first, which is the last one.
func fit(tables [][]topLine, room int) [][]topLine {
	lines := 0
	for i, t := range tables {
		if lines += len(t); lines > room {
			return tables[:i]
		}
	}
	return tables
}

// summary is all but the tables.
func (v *topView) summary() (out []topLine) {
	st := v.status
	part := func(t tone, lines ...string) {
		for _, l := range lines {
			out = append(out, topLine{oneLine(l), t})
		}
	}
	part(toneHead, fmt.Sprintf("breakwater %s  up %s  %s", st.Version, api.LengthText(st.Now.Sub(st.StartedAt.Time)), st.Now.UTC().Format("2006-01-02 15:04:05Z")))
	if st.Paused != nil {
		part(toneAlarm, "paused "+pauseText(st.Paused))
	}
	if st.Draining {
		part(toneAlarm, "draining")
	}
	if st.Intake.Intake == api.IntakeWaiting || st.Intake.Intake == api.IntakeFull {
		part(toneAlarm, "intake "+intakeText(&st.Intake))
	}
	for i := range st.Unavailable {
		part(toneAlarm, outageText(&st.Unavailable[i], st.Now.Time))
	}
	part(toneText, "", fmt.Sprintf("ready %s   scheduled %s   in flight %s   held %s   dead %s   done %s   discarded %s",
		number(st.Ready), number(st.Scheduled), number(st.Leased), number(st.Held), number(st.Dead), number(st.Done), number(st.Discarded)))
	part(toneText, "keys: "+keysText(st), "lately: "+v.rates())
	for _, r := range st.Routes {
		switch {
		case r.InProcess:
		case r.Consumers == 0:
			part(toneText, string(r.Route)+": no consumer attached")
		default:
			part(toneText, fmt.Sprintf("%s: %s %s attached, room for %s more", r.Route, number(r.Consumers), plural(r.Consumers, "consumer", "consumers"), number(r.Room)))
		}
	}
	if text := deadText(st.DeadByCode); text != "" {
		part(toneText, "dead letters: "+text)
	}
	return out
}

// tables are what is at risk, the oldest of each route, and the ages, in that order,
// since it is that of need; each has a blank line before it.
func (v *topView) tables() (out [][]topLine) {
	st := v.status
	for _, text := range [][]byte{atRiskText(st), oldestText(st.Oldest), agesText(st)} {
		if len(text) == 0 {
			continue
		}
		lines := []topLine{{}}
		for i, l := range tableLines(text) {
			t := toneText
			if i == 0 && strings.ToUpper(l) == l {
				t = toneHead
			}
			lines = append(lines, topLine{oneLine(l), t})
		}
		out = append(out, lines)
	}
	return out
}

// tableLines are the lines of tables.
func tableLines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// rates is how much was stored and done a second: since the answer before, or if there
// is none in the minute of which breakwater knows.
func (v *topView) rates() string {
	st, was := v.status, v.before
	if was == nil {
		return recentText(st.Recent)
	}
	seconds := int64(st.Now.Sub(was.Now.Time).Round(time.Second) / time.Second)
	return fmt.Sprintf("%s stored, %s done in %d s", rate(int64(st.LastSeq-was.LastSeq), seconds), rate(st.Done-was.Done, seconds), seconds)
}

// deadText is how many dead letters there are of each code, most first.
func deadText(byCode map[string]int64) string {
	var codes []string
	for code := range byCode {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(a, b string) int {
		return cmp.Or(cmp.Compare(byCode[b], byCode[a]), strings.Compare(a, b))
	})
	for i, code := range codes {
		codes[i] = code + " " + number(byCode[code])
	}
	return strings.Join(codes, "   ")
}

// keyLinesHead is how many of keyLines come before the keys: a blank one and the names of
// the columns.
const keyLinesHead = 2

// keyLines are the keys that wait. Ages stand in place of moments: why a key waits must not
// be what the end of the line cuts off.
func (v *topView) keyLines() (out []topLine) {
	rows := [][]string{{"KEY", "STATE", "OPEN", "AGE", "AMOUNT", "WAITS FOR"}}
	now := clock{v.status.Now}
	for i := range v.keys {
		if k := &v.keys[i]; k.State == api.KeyBlocked || k.State == api.KeyHeld {
			age := ""
			if !k.AcceptedAt.IsZero() {
				age = rough(v.status.Now.Sub(k.AcceptedAt.Time))
			}
			rows = append(rows, []string{keyName(k), k.State, number(k.Open), age, amountsText(k.Amounts), now.waits(k)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	out = append(out, topLine{})
	for i, l := range tableLines(table(rows)) {
		t := toneText
		switch {
		case i == 0:
			t = toneHead
		case rows[i][1] == api.KeyBlocked:
			t = toneAlarm
		}
		out = append(out, topLine{l, t})
	}
	return out
}
