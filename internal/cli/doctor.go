package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/doctor"
)

func (e *env) doctorCommand() *ucli.Command {
	return &ucli.Command{
		Name: "doctor", Usage: "say what is wrong with this host, the configuration or the file",
		Description: manual(`
Looks at the configuration (as "config check" does), this host (the clock, file
descriptors, owners and modes of files, file system and room of the disk) and the
store, and says what was seen, where, and what to do, the worst first. A breakwater
that runs is asked over its control socket; of one that does not, the file is opened
for reading; with --file a copy is read, without a configuration; with --socket the
breakwater that listens there is asked, and nothing but what it says is looked at.
Nothing is ever changed or repaired, and nothing waits for a lock.

"wrong" fails or will fail, or breaks a promise; a "smell" works and is probably not
meant; a "note" is worth knowing. Only what is wrong changes the exit status: a smell
asks for a look, not for an alarm. What could not be looked at is listed with the
reason; what is no matter of a copy is left out. With --json each finding has the
stable name of its check.

A store that is stopped is held while it is read, after an unclean stop for as long as
it takes to check all of it: breakwater cannot be started meanwhile. Under socket
activation, asking starts it.

The checks:
`+doctorChecks(),
			[]string{
				"0  nothing is wrong; there may be smells and notes", "1  it failed: the copy is absent, in use, or not for this user",
				"2  wrong usage", "3  something is wrong, the configuration included",
			},
			"breakwater doctor", "breakwater doctor --json | jq -r '.findings[] | [.severity, .check, .seen] | @tsv'",
			"breakwater doctor --file copy.db"),
		Flags:  []ucli.Flag{fileFlag()},
		Action: e.doctor,
	}
}

// doctorChecks lists the checks.
func doctorChecks() string {
	var rows [][]string
	for _, name := range doctor.Names() {
		rows = append(rows, []string{"  " + name[0], name[1]})
	}
	return string(table(rows))
}

func (e *env) doctor(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	var facts *doctor.Facts
	var err error
	switch {
	case c.IsSet("file") && c.IsSet("socket"):
		return usageFor(c, "--file and --socket are two places to ask")
	case c.IsSet("file"):
		facts, err = e.factsOfCopy(c, c.String("file"))
	case c.IsSet("socket"):
		facts, err = e.factsOfSocket(c, c.String("socket"))
	default:
		facts, err = e.factsOfHost(c)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{status: exitFailed, err: errors.New("interrupted"), hint: "nothing was changed; run it again"}
	case err != nil:
		return err
	}
	report := doctor.Examine(facts)
	for i := range report.Findings {
		f := &report.Findings[i]
		f.Hint = e.aim.at(f.Hint)
	}
	if c.Bool("json") {
		err = e.printJSON(report)
	} else {
		err = write(e.Stdout, doctorText(&report))
	}
	if !report.OK {
		return quiet(exitFindings) // also when nobody reads it
	}
	return err
}

// doctorText is a report for people.
func doctorText(r *doctor.Report) []byte {
	var rows [][]string
	for _, f := range r.Findings {
		seen := f.Seen
		if f.Where != "" {
			seen = f.Where + ": " + seen
		}
		rows = append(rows, []string{string(f.Severity), f.Check, seen})
		if f.Hint != "" {
			rows = append(rows, []string{"", "", "-> " + f.Hint})
		}
	}
	text := table(rows)
	if len(rows) > 0 {
		text = append(text, '\n')
	}
	verdict := "nothing wrong found"
	if r.Wrong > 0 {
		verdict = fmt.Sprintf("%d wrong", r.Wrong)
	}
	if r.Smells > 0 {
		verdict += fmt.Sprintf(", %d %s", r.Smells, plural(r.Smells, "smell", "smells"))
	}
	if r.Notes > 0 {
		verdict += fmt.Sprintf(", %d %s", r.Notes, plural(r.Notes, "note", "notes"))
	}
	text = append(text, oneLine(fmt.Sprintf("%s (%s)", verdict, lookedAt(r)))+"\n"...)
	if len(r.Checked) > 0 {
		text = append(text, "checked: "+strings.Join(r.Checked, ", ")+"\n"...)
	}
	return append(text, uncheckedText(r.Unchecked)...)
}

// lookedAt says what was looked at.
func lookedAt(r *doctor.Report) string {
	switch r.Mode {
	case doctor.Running:
		return "breakwater runs, and was asked"
	case doctor.Stopped:
		return "nothing answered on the control socket"
	}
	return "a copy"
}

// uncheckedText lists what was not checked, by reason.
func uncheckedText(list []doctor.Unchecked) (text []byte) {
	var whys []string
	names := map[string][]string{}
	for _, u := range list {
		if !slices.Contains(whys, u.Why) {
			whys = append(whys, u.Why)
		}
		names[u.Why] = append(names[u.Why], u.Check)
	}
	for _, why := range whys {
		text = append(text, oneLine(fmt.Sprintf("not checked: %s: %s", strings.Join(names[why], ", "), why))+"\n"...)
	}
	return text
}
