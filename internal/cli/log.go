package cli

import (
	"bytes"
	"io"
	stdlog "log"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/config"
)

// logger is the log of serve, on stderr.
func logger(c config.Config, w io.Writer) hclog.Logger {
	asJSON := c.Log.Format == "json"
	return hclog.New(&hclog.LoggerOptions{
		Name: "breakwater", Level: hclog.LevelFromString(c.Log.Level), JSONFormat: asJSON,
		Output: &entryWriter{w: w, asJSON: asJSON},
	})
}

// leftOut returns what makes the entry that stands for so many others which nobody took. It
// is there whatever the level is.
func leftOut(c config.Config) func(entries int) []byte {
	c.Log.Level = "warn"
	return func(entries int) []byte {
		var b bytes.Buffer
		logger(c, &b).Warn("entries of this log were left out here: what reads it took none", "entries", entries)
		return b.Bytes()
	}
}

// entryWriter keeps every entry of the log on one line and visible. hclog hands an
// entry over in one Write; in text it prints messages, names and keys as they are,
// so that a line feed in one of them would begin a line that looks like an entry.
type entryWriter struct {
	w      io.Writer
	asJSON bool
}

// Write writes one entry.
func (l *entryWriter) Write(entry []byte) (int, error) {
	var out []byte
	if body := bytes.TrimSuffix(entry, []byte("\n")); l.asJSON {
		out = append(bytes.Clone(visible(body)), '\n')
	} else {
		out = append([]byte(oneLine(string(body))), '\n')
	}
	if _, err := l.w.Write(out); err != nil {
		return 0, err
	}
	return len(entry), nil
}

// hushLibraries keeps what libraries print on the standard library's logger off our
// stderr until restore is called. net/http prints there what a handler's other end
// sends unasked: lines that are no entries of our log, and whatever secrets are in
// them. The log says that there was something, not what.
func hushLibraries(log hclog.Logger) (restore func()) {
	before := stdlog.Writer()
	stdlog.SetOutput(dropper{log})
	return func() { stdlog.SetOutput(before) }
}

type dropper struct{ log hclog.Logger }

// Write drops the words and counts them.
func (d dropper) Write(words []byte) (int, error) {
	d.log.Warn("words of a library were dropped", "bytes", len(words),
		"hint", "an http handler's other end may have sent more than its answer")
	return len(words), nil
}
