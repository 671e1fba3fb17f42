package cli

import (
	"fmt"
	"strings"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// counted is a number with what it counts.
func counted(n int, one, many string) string { return number(n) + " " + plural(n, one, many) }

// text sums up what became of the checkpoints.
func (s *signedHeads) text() string {
	parts := []string{fmt.Sprintf("%s with a good signature, %s of them found", number(s.Checked), number(s.Found))}
	behind := s.missed(queue.WitnessCut) + s.Later
	if behind > 0 && s.Newest != nil {
		parts[0] += fmt.Sprintf(" (the newest is of record %s, signed %s)", number(s.Newest.N), moment(s.Newest.At))
	}
	if behind > 0 {
		parts = append(parts, number(behind)+" behind the end")
	}
	if n := s.Trimmed; n > 0 {
		parts = append(parts, number(n)+" before what was kept")
	}
	if n := s.Incomplete; n > 0 {
		parts = append(parts, number(n)+plural(n, " that breaks off", " that break off"))
	}
	return strings.Join(parts, ", ")
}

// appendContradictions adds a line for each checkpoint that does not fit, one for all
// that do not for the same reason.
func (s *signedHeads) appendContradictions(text []byte) []byte {
	if s == nil {
		return text
	}
	for _, c := range s.Contradictions {
		which := fmt.Sprintf("checkpoint at line %d of %s", c.Line, s.path)
		if c.Count > 1 {
			which = fmt.Sprintf("%s checkpoints of %s, the first at line %d", number(c.Count), s.path, c.Line)
		}
		of := ""
		if c.N != 0 {
			of = fmt.Sprintf(", record %s signed %s by %s", number(c.N), moment(c.At), c.Key)
		}
		text = append(append(text, oneLine(fmt.Sprintf("wrong: %s%s: %s", which, of, c.Why))...), '\n')
	}
	if s.More {
		text = append(text, "there are more checkpoints that do not fit than are listed\n"...)
	}
	return text
}

// hints say what may explain that checkpoints are not found, and how to see whether it
// does. An older copy cannot be told from one that was cut: whoever made it has to say
// when.
func (v *verifying) hints(a aim) (text []byte) {
	s := v.signed
	if s == nil || s.missed(queue.WitnessCut)+s.missed(queue.WitnessDiffers) == 0 {
		return nil
	}
	line := func(hint string) { text = append(append(text, oneLine("hint: "+a.at(hint))...), '\n') }
	if n := v.Events[string(queue.EventRestored)]; n > 0 {
		line(fmt.Sprintf("the trail has RESTORED (%s): what was signed before that, of records that the restored copy did not have, cannot be found any more;"+
			" when that was, and by whom: breakwater audit export --event RESTORED", number(n)))
	}
	if v.file != "" && s.missed(queue.WitnessCut) > 0 {
		line(fmt.Sprintf("if this file is an archive or a copy, made at about %s and before %s, say so: %s",
			moment(api.Time{Time: v.copied()}), moment(api.Time{Time: s.since}), v.again()))
	}
	return text
}

// copied is when the file may have been copied: when its last record was written, unless
// the clock says that a later one was signed before.
func (v *verifying) copied() time.Time {
	if v.Last != nil && v.Last.TS.Before(v.signed.since) {
		return v.Last.TS.Time
	}
	return v.signed.since.Add(-time.Microsecond)
}

// again is the command that verifies the file as one that was copied then.
func (v *verifying) again() string {
	command := "breakwater audit verify"
	for _, w := range v.witnesses {
		command += " --witness " + shellWord(w.text)
	}
	return command + " --checkpoint " + shellWord(v.signed.path) + " --key " + shellWord(v.signed.key) +
		" --as-of " + v.copied().UTC().Format(time.RFC3339Nano)
}
