package cli

import (
	"strings"
	"testing"
)

func TestConfigHistory(t *testing.T) {
	const head = `{"n":7,"ts":"2026-11-30T17:00:00.000000Z","event":"CONFIG_CHANGED",`
	for _, c := range []struct{ name, line, want string }{
		{
			"each key has its value before and after",
			head + `"by":"alice","reason":"more","before":{"queue.prefetch":32,"log.level":"info"},"after":{"queue.prefetch":64,"log.level":"debug"},"peer":{"uid":1000,"gid":1000,"pid":9}}`,
			"2026-11-30T17:00:00.000000Z  record 7  by alice  uid 1000  reason \"more\"\n  log.level       \"info\" -> \"debug\"\n  queue.prefetch  32 -> 64\n",
		},
		{
			"a key that came, one that went, one of which only what is masked changed",
			head + `"before":{"a":1,"u":"https://redacted@h/"},"after":{"b":[1],"u":"https://redacted@h/"}}`,
			"2026-11-30T17:00:00.000000Z  record 7\n  a  1 -> (none)\n  b  (none) -> [1]\n  u  \"https://redacted@h/\"  (what is masked of it has changed)\n",
		},
		{
			"what steers a terminal is escaped",
			head + `"by":"a\u001b[2J","before":{"x\u202e\n":"\u009b1"},"after":{"x\u202e\n":"` + "\u009b2" + `"}}`,
			"2026-11-30T17:00:00.000000Z  record 7  by a\\x1b[2J\n  x\\u202e\\n  \"\\u009b1\" -> \"\\u009b2\"\n",
		},
		{
			"what cannot be taken apart is shown whole",
			head + `"before":"{\"cut","after":[1],"cut":["before"]}`,
			"2026-11-30T17:00:00.000000Z  record 7\n  - \"{\\\"cut\"\n  + [1]\n  the record has not all of before: it was too long\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := changeText([]byte(c.line))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	if _, err := changeText([]byte("{")); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a line that is no record: %v", err)
	}
}
