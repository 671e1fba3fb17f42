package cli

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// errPipe: the reader of our output has gone.
var errPipe = syscall.EPIPE

// escape makes text safe to show on a terminal: control characters, invisible and
// direction-changing ones are written as escapes, so that no message can hide or
// forge a line. Line feeds stay.
func escape(s string) string {
	if strings.IndexFunc(s, hidden) < 0 && !strings.ContainsRune(s, unicode.ReplacementChar) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) || r == unicode.ReplacementChar {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// oneLine is escape for text that must stay on its line.
func oneLine(s string) string { return strings.ReplaceAll(escape(s), "\n", `\n`) }

// hidden reports whether a rune is not shown as itself.
func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// write writes to an output, and reports a closed pipe as errPipe.
func write(w io.Writer, b []byte) error {
	if _, err := w.Write(b); err != nil {
		if errors.Is(err, syscall.EPIPE) {
			return errPipe
		}
		return err
	}
	return nil
}
