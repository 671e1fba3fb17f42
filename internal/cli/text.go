package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
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
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0]), 16)) // a byte that is not UTF-8
		case hidden(r):
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// oneLine is escape for text that must stay on its line.
func oneLine(s string) string { return strings.ReplaceAll(escape(s), "\n", `\n`) }

// hidden reports whether a rune is not shown as itself.
func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// visible escapes, in JSON, the characters that a person would not see or that
// could steer a terminal. What the document says stays the same: outside of strings
// JSON has only ASCII, so that nothing needs to be parsed.
func visible(doc []byte) []byte {
	if bytes.IndexFunc(doc, steers) < 0 {
		return doc
	}
	var out []byte
	for len(doc) > 0 {
		r, size := utf8.DecodeRune(doc)
		if steers(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		} else {
			out = append(out, doc[:size]...)
		}
		doc = doc[size:]
	}
	return out
}

// steers reports whether a rune may change how a terminal shows others. ASCII
// controls cannot stand in a JSON string; between its parts they are our own.
func steers(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }

// printJSON prints one document on one line of stdout.
func (e *env) printJSON(doc any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // it is not for a browser, and people read it
	if err := enc.Encode(doc); err != nil {
		return err
	}
	return write(e.Stdout, visible(b.Bytes()))
}

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
