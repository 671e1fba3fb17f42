package cli

import (
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/queue"
)

// timeFlag reads a flag that is a moment: RFC 3339, a date (0:00 UTC of it), or an
// age, which is counted back from now. Zero where the flag was not given.
func timeFlag(c *ucli.Context, name string) (time.Time, error) {
	text := c.String(name)
	if !c.IsSet(name) {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if d, ok := parseAge(text); ok {
		return time.Now().Add(-d), nil
	}
	return time.Time{}, usageFor(c, "--%s %q is neither a time (2026-11-30T17:00:00Z, 2026-11-30) nor an age (90m, 24h, 7d)", name, text)
}

// spanFlags reads the flags that select records by time.
func spanFlags(c *ucli.Context, q *queue.TrailQuery) (err error) {
	if q.Since, err = timeFlag(c, "since"); err != nil {
		return err
	}
	if q.Until, err = timeFlag(c, "until"); err != nil {
		return err
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return usageFor(c, "--since %s is not before --until %s: there can be no record", c.String("since"), c.String("until"))
	}
	return nil
}

// ageFlag reads a flag that is an age, and returns the moment so long ago.
func ageFlag(c *ucli.Context, name string) (time.Time, error) {
	if !c.IsSet(name) {
		return time.Time{}, nil
	}
	d, ok := parseAge(c.String(name))
	if !ok {
		return time.Time{}, usageFor(c, "--%s %q is not an age like 90m, 24h or 7d", name, c.String(name))
	}
	return time.Now().Add(-d), nil
}

// maxDays bounds an age in days: what a duration can hold, and a bit less.
const maxDays = 100_000

// parseAge reads a length of time that is not negative: Go's form, or days.
func parseAge(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= maxDays
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}
