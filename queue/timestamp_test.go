package queue

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTimestamp(t *testing.T) {
	t.Run("reads_rfc_3339", func(t *testing.T) {
		for text, want := range map[string]string{
			"2026-03-31T23:59:59Z":                "2026-03-31T23:59:59Z",
			"2026-03-31t23:59:59z":                "2026-03-31T23:59:59Z",
			"2026-03-31T23:59:59+05:30":           "2026-03-31T18:29:59Z",
			"2026-03-31T23:59:59-00:00":           "2026-03-31T23:59:59Z",
			"2026-03-31T23:59:59-23:59":           "2026-04-01T23:58:59Z",
			"2026-03-31T00:00:00.5Z":              "2026-03-31T00:00:00.5Z",
			"2026-03-31T00:00:00.123456789Z":      "2026-03-31T00:00:00.123456789Z",
			"2026-03-31T00:00:00.123456789999Z":   "2026-03-31T00:00:00.123456789Z",
			"2024-02-29T12:00:00Z":                "2024-02-29T12:00:00Z",
			"2000-02-29T12:00:00Z":                "2000-02-29T12:00:00Z",
			"2016-12-31T23:59:60Z":                "2017-01-01T00:00:00Z", // a leap second that there was
			"2017-01-01T00:59:60.75+01:00":        "2017-01-01T00:00:00Z",
			"1970-01-01T00:00:00Z":                "1970-01-01T00:00:00Z",
			"1969-12-31T23:59:59Z":                "1970-01-01T00:00:00Z", // long due is due
			"0000-01-01T00:00:00Z":                "1970-01-01T00:00:00Z",
			"0001-01-01T00:00:00Z":                "1970-01-01T00:00:00Z",
			"2261-12-31T23:59:59.999999999Z":      "2261-12-31T23:59:59.999999999Z",
			"2262-01-01T00:30:00+01:00":           "2261-12-31T23:30:00Z",
			"2026-03-31T00:00:00." + zeros + "1Z": "2026-03-31T00:00:00Z",
		} {
			got, reason := parseTimestamp(text)
			if reason != "" {
				t.Errorf("%s %s", text, reason)
			} else if got.Format(time.RFC3339Nano) != want {
				t.Errorf("%s is %s, want %s", text, got.Format(time.RFC3339Nano), want)
			}
			if got.IsZero() {
				t.Errorf("%s reads as no time at all", text)
			}
		}
	})

	t.Run("its_latest_fits_64_bits_of_nanoseconds", func(t *testing.T) {
		latest, reason := parseTimestamp("2261-12-31T23:59:60Z")
		if reason == "" {
			t.Errorf("a leap second leads into %s", latest)
		}
		latest, _ = parseTimestamp("2261-12-31T23:59:59.999999999Z")
		if back := time.Unix(0, latest.UnixNano()); !back.Equal(latest) {
			t.Errorf("%s is stored as %s", latest, back)
		}
	})

	t.Run("refuses_all_else", func(t *testing.T) {
		for _, text := range []string{
			"2026-12-15T23:59:60Z", "2026-12-30T23:59:60Z", "", "now", "2026", "2026-03-31", "2026-03-31T23:59:59", "2026-03-31 23:59:59Z", "2026-03-31T23:59Z", "2026-03-31T23:59:59 Z", "20260331T235959Z",
			"2026-3-31T23:59:59Z", "2026-03-31T3:59:59Z", "2026-03-31T23:59:59,5Z", "2026-03-31T23:59:59.Z", "2026-03-31T23:59:59+0530", "2026-03-31T23:59:59+05",
			"2026-03-31T23:59:59+24:00", "2026-03-31T23:59:59+05:60", "2026-03-31T23:59:59+5:30", "2026-03-31T23:59:59UTC", "2026-03-31T23:59:59ZZ", "2026-03-31T23:59:59Z ",
			" 2026-03-31T23:59:59Z", "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-02-30T00:00:00Z", "2026-04-31T00:00:00Z", "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z",
			"2026-01-00T00:00:00Z", "2026-01-32T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:60Z", "2026-01-01T12:59:60Z",
			"2017-01-01T00:59:60Z", "+2026-01-01T00:00:00Z", "-2026-01-01T00:00:00Z", "12026-01-01T00:00:00Z", "2026-01-01T00:00:00−05:00", "２026-01-01T00:00:00Z",
			"2262-01-01T00:00:00Z", "2261-12-31T23:59:59-01:00", "9999-12-31T23:59:59Z", "2026-W14-2T00:00:00Z", "2026-090T00:00:00Z", "1775023200",
		} {
			if got, reason := parseTimestamp(text); reason == "" {
				t.Errorf("%q is read as %s", text, got)
			}
		}
	})
}

var zeros = strings.Repeat("0", 40)

func TestTimestampsAgreeWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(19[6-9]|20[0-9]|22[0-9])[0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-][01][0-9]:[0-5][0-9])`).Draw(t, "time")
		got, reason := parseTimestamp(text)
		want, err := time.Parse(time.RFC3339, text)
		if err == nil && want.UTC().Year() > MaxYear {
			if reason == "" {
				t.Fatalf("%s is taken", text)
			}
			return
		}
		if (reason == "") != (err == nil) {
			t.Fatalf("%s: reason %q, time.Parse says %v", text, reason, err)
		}
		if err != nil {
			return
		}
		if epoch := time.Unix(0, 0); want.Before(epoch) {
			want = epoch
		}
		if !got.Equal(want) {
			t.Fatalf("%s is %s, want %s", text, got, want)
		}
	})
}
