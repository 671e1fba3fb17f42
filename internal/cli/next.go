package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// What an operator reads ends with the command to type next, so that the way from "it
// is late" to the cause and to what mends it needs no manual.

// nextText is that line, one for each command; "" is none.
func nextText(commands ...string) (text string) {
	for _, command := range commands {
		switch {
		case command == "":
			continue
		case text == "":
			text = "\n"
		}
		text += "next: " + oneLine(command) + "\n"
	}
	return text
}

// nextOfStatus is what to look at first, and what besides; nil if nothing asks for it.
func nextOfStatus(st *api.Status) []string {
	if st.Paused != nil {
		return []string{"breakwater resume"}
	}
	if next := nextOfIntake(st); next != "" {
		return []string{next}
	}
	var next []string
	// First what never mends itself: only a person ends a dead letter.
	if st.BlockedKeys > 0 {
		next = append(next, nextOfBlocked(st))
	}
	// Before a key that waits: of such a route everything does, and no list shows it.
	if o := stranded(st); o != nil {
		next = append(next, "breakwater why "+strconv.FormatUint(o.Seq, 10))
	}
	if next == nil {
		if rest := nextOfRest(st); rest != "" {
			next = append(next, rest)
		}
	}
	return next
}

// nextOfBlocked leads to the keys that wait for a person. Where nothing waits behind
// their dead letters, the letters are all there is to see.
func nextOfBlocked(st *api.Status) string {
	if st.BlockedKeys > 1 && st.HeldKeys == 0 && st.Damaged == 0 {
		return nextLetters
	}
	return "breakwater keys list --blocked"
}

// nextLetters shows what many dead letters have in common.
const nextLetters = "breakwater dlq list --group"

// nextOfRest is what to look at where no key is blocked and every route has somebody;
// "" if nothing asks for it.
func nextOfRest(st *api.Status) string {
	switch {
	case st.OperatorHolds > 0, st.HeldKeys > 0:
		return "breakwater keys list --held"
	case st.Dead > 0:
		return "breakwater dlq list"
	case st.Leased > 0 && len(st.Oldest) == 0: // all there is to do is with somebody, or behind it
		return "breakwater leases list"
	case st.Scheduled > 0 && st.Ready+st.Leased == 0: // no list shows what waits for its time
		return "breakwater why KEY, with the partition key that is missed: what there is waits for its not_before"
	}
	oldest := oldestOf(st, func(string) bool { return true })
	if oldest == nil || time.Duration(oldest.AgeMS)*time.Millisecond < lateAfter {
		return ""
	}
	return "breakwater why " + strconv.FormatUint(oldest.Seq, 10)
}

// nextOfIntake is what says why new lines find no room, where that is not for want of
// work being done; "" where they find some.
func nextOfIntake(st *api.Status) string {
	if in := st.Intake.Intake; in != api.IntakeWaiting && in != api.IntakeFull {
		return ""
	}
	switch queue.Saturation(st.Saturated) {
	case queue.FullDisk, queue.FullStore, queue.FullLedger:
		return "breakwater doctor"
	case queue.FullDeadLetters:
		return nextLetters
	}
	return ""
}

// stranded is the oldest claimable exception of a route on which nobody works: no
// consumer is attached, or the handler cannot be had. While breakwater drains that is
// so everywhere, and says nothing.
func stranded(st *api.Status) *api.Oldest {
	if st.Draining {
		return nil
	}
	return oldestOf(st, func(route string) bool {
		return slices.ContainsFunc(st.Routes, func(r api.Route) bool { return r.Route == route && !r.InProcess && r.Consumers == 0 }) ||
			slices.ContainsFunc(st.Unavailable, func(o api.Outage) bool { return o.Route == route })
	})
}

// oldestOf is the oldest claimable exception of these routes; nil: there is none.
func oldestOf(st *api.Status, of func(route string) bool) (oldest *api.Oldest) {
	for i := range st.Oldest {
		if o := &st.Oldest[i]; of(o.Route) && (oldest == nil || o.AgeMS > oldest.AgeMS) {
			oldest = o
		}
	}
	return oldest
}

// lateAfter is how old a claimable exception is before it is worth a question.
const lateAfter = time.Minute

// nextOfKeys is the question about the first key of a list, in which dead letters block
// so many keys: about several it is what their letters have in common.
func nextOfKeys(first *api.Key, blocked int) string {
	if blocked > 1 && first.Letter != nil && first.Damaged == 0 {
		return nextLetters
	}
	if first == nil || first.Key == "" {
		return ""
	}
	if strings.ContainsRune(first.Key, 0) { // which no argument can have
		if first.Seq == 0 {
			return ""
		}
		return "breakwater why " + strconv.FormatUint(first.Seq, 10)
	}
	return "breakwater why " + keyArgument(first.Key)
}

// keyArgument is a partition key as an argument of why: with a flag where it would be
// taken for something else.
func keyArgument(key string) string {
	word := shellWord(key)
	if _, isSeq := parseSeq(key); isSeq {
		return "--partition " + word
	}
	if strings.HasPrefix(key, "-") {
		return "-- " + word
	}
	return word
}

// keyWord is a partition key as the last argument of a command that knows nothing else.
func keyWord(key string) string {
	if strings.HasPrefix(key, "-") {
		return "-- " + shellWord(key)
	}
	return shellWord(key)
}

// nextOfWhy is what mends the first cause.
func nextOfWhy(w *api.Why) string {
	c := &w.Causes[0]
	seq := strconv.FormatUint(c.Seq, 10)
	switch queue.Reason(c.Reason) {
	case queue.WhyDead, queue.WhyBlocked:
		return nextOfLetter(c, seq)
	case queue.WhyDamaged:
		return "breakwater audit verify"
	case queue.WhyOperator:
		return "breakwater keys release " + keyWord(w.PartitionKey)
	case queue.WhyRetry:
		return "breakwater show " + seq + ", which has each failure; or breakwater keys release --waits " + keyWord(w.PartitionKey) + " to try it now"
	case queue.WhyHold:
		return "breakwater show " + seq + ", which has the answer that put it off; or breakwater keys release --waits " + keyWord(w.PartitionKey) + " to go on now"
	case queue.WhyLeased:
		if c.Kind == api.LeaseOfConsumer {
			return "breakwater leases revoke " + seq + " --owner=" + shellWord(c.Owner) + " --reason WHY, if " + c.Owner + " is gone or hangs"
		}
		return "breakwater show " + seq
	case queue.WhyBehind:
		return "breakwater why " + seq
	case queue.WhyPaused:
		return "breakwater resume"
	case queue.WhyUnavailable:
		return "mend what the handler reaches; breakwater status says when it is tried again"
	case queue.WhyNoConsumer:
		return "breakwater consume --name NAME --routes " + c.Route + ", or give the route a handler and breakwater reload"
	case queue.WhyConsumers:
		return "breakwater leases list"
	case queue.WhyNext:
		return "breakwater status"
	}
	return ""
}

// nextOfLetter is what ends a dead letter.
func nextOfLetter(c *api.Cause, seq string) string {
	switch queue.Code(c.Code) {
	case queue.CodePoison, queue.CodeConflict:
		return fmt.Sprintf("breakwater dlq edit %s, then breakwater dlq replay %s; or breakwater dlq discard %s --reason WHY", seq, seq, seq)
	}
	return fmt.Sprintf("mend the cause, then breakwater dlq replay %s; or settle it by hand and breakwater dlq discard %s --reason WHY", seq, seq)
}

// nextOfGroups is what puts back the most of what somebody selected that can go back as
// it is, else one that cannot.
func nextOfGroups(g *api.LetterGroups, selected string) string {
	for i := range g.Items {
		switch code := g.Items[i].Code; queue.Code(code) {
		case queue.CodePoison, queue.CodeConflict: // an edit comes first
		default:
			return "mend the cause, then breakwater dlq replay --code " + code + selected + " --dry-run"
		}
	}
	if len(g.Items) == 0 {
		return ""
	}
	return "breakwater dlq show " + strconv.FormatUint(g.Items[0].FirstSeq, 10)
}

// shellWord is a text as a word for a shell: as it is where that is safe, else in
// quotes. What cannot be seen, or could steer a terminal, is escaped as bash, zsh, ksh
// and POSIX since 2024 read it.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_@%+:,./-", r))
	}
	switch {
	case s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0:
		return s
	case utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		case r != utf8.RuneError && unicode.IsPrint(r):
			b.WriteString(s[:size])
		default:
			for _, c := range []byte(s[:size]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		s = s[size:]
	}
	return b.String() + "'"
}
