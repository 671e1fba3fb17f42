package handler

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// maxStderr is how much of the end of a command's standard error is kept.
	maxStderr = 4 << 10
	// maxReason bounds the line of it that becomes part of a reason.
	maxReason = 256
)

// firstLine is a writer that keeps the first line that is not blank, and of one that is
// longer than an answer may be a byte more than that: so that who reads it knows.
type firstLine struct {
	kept []byte
	done bool // the line has ended, or is too long to be an answer
}

// Write never fails: a command must not fail for what it says.
func (f *firstLine) Write(p []byte) (int, error) {
	n := len(p)
	if f.done {
		return n, nil
	}
	if len(f.kept) == 0 {
		p = opening(p)
	}
	if at := bytes.IndexByte(p, '\n'); at >= 0 {
		p, f.done = p[:at], true
	}
	if room := maxAnswerLine + 1 - len(f.kept); len(p) >= room {
		p, f.done = p[:room], true
	}
	f.kept = append(f.kept, p...)
	return n, nil
}

// line returns the line, or its beginning if it was too long.
func (f *firstLine) line() []byte { return f.kept }

// tail is a writer that keeps the end of what is written.
type tail struct {
	kept []byte // at most twice maxStderr, so that it is seldom moved
	lost bool
}

// Write never fails: a command must not fail for what it says.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > maxStderr {
		p, t.lost = p[len(p)-maxStderr:], true
	}
	if len(t.kept)+len(p) > 2*maxStderr {
		keep := maxStderr - len(p) // what of the old may still be among the last
		copy(t.kept, t.kept[len(t.kept)-keep:])
		t.kept, t.lost = t.kept[:keep], true
	}
	t.kept = append(t.kept, p...)
	return n, nil
}

// text returns the end as valid UTF-8, at most maxStderr bytes.
func (t *tail) text() string {
	end := t.kept
	cut := t.lost
	if len(end) > maxStderr {
		end, cut = end[len(end)-maxStderr:], true
	}
	for i := 0; cut && i < utf8.UTFMax-1 && len(end) > 0 && !utf8.RuneStart(end[0]); i++ {
		end = end[1:] // the rest of a character whose beginning was cut off
	}
	text := strings.ToValidUTF8(string(end), "\uFFFD")
	if over := len(text) - maxStderr; over > 0 { // a bad byte has become three
		for !utf8.RuneStart(text[over]) {
			over++
		}
		text = text[over:]
	}
	return text
}

// lastLine returns the last line that says something, for people.
func (t *tail) lastLine() string {
	text := strings.TrimSpace(t.text())
	line := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	return clip(line)
}

// clip bounds a line for people, at a character's end.
func clip(line string) string {
	if len(line) <= maxReason {
		return line
	}
	end := maxReason
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…"
}
