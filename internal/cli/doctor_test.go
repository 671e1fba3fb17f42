package cli

import (
	"os"
	"strings"
	"testing"

	"breakwater/internal/doctor"
)

// TestDoctor_reads_metrics_that_there_are: one that was renamed would be a check that
// is silently never made.
func TestDoctor_reads_metrics_that_there_are(t *testing.T) {
	scrape, err := os.ReadFile("../metrics/testdata/scrape.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{
		handlerSeconds + `_bucket{route="AUTO_RESOLVE",le="`, diskFree + " ", limitInForce + `{limit="max_backlog"} `,
		limitInForce + `{limit="max_ledger_keys"} `, routeStuck + `{route="AUTO_RESOLVE"} `,
	} {
		if !strings.Contains(string(scrape), "\n"+series) {
			t.Errorf("a scrape has no %s", series)
		}
	}
}

func TestDoctorText(t *testing.T) {
	r := doctor.Report{
		Mode: doctor.Running, Wrong: 1, Smells: 2,
		Findings: []doctor.Finding{
			{Check: "host.clock", Severity: doctor.Wrong, Seen: "it is late", Hint: "set it"},
			{Check: "work.pause", Severity: doctor.Smell, Seen: "by \x1b[2J\nwrong", Where: "/a\nb", Hint: "breakwater resume"},
			{Check: "x", Severity: doctor.Smell, Seen: "y"},
		},
		Checked:   []string{"host.clock", "work.pause", "x"},
		Unchecked: []doctor.Unchecked{{Check: "a", Why: "no\nw"}, {Check: "b", Why: "v"}, {Check: "c", Why: "no\nw"}},
	}
	want := `wrong  host.clock  it is late
                   -> set it
smell  work.pause  /a\nb: by \x1b[2J\nwrong
                   -> breakwater resume
smell  x           y

1 wrong, 2 smells (breakwater runs, and was asked)
checked: host.clock, work.pause, x
not checked: a, c: no\nw
not checked: b: v
`
	if got := string(doctorText(&r)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r = doctor.Report{Mode: doctor.Copy, OK: true, Notes: 1}
	if got, want := string(doctorText(&r)), "nothing wrong found, 1 note (a copy)\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
