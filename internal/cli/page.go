package cli

import (
	"bytes"
	"fmt"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

// manual makes the text of a command's page: what it does, every exit status that
// it can end with, and examples that can be typed.
func manual(what string, statuses []string, examples ...string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(what))
	b.WriteString("\n\nExit status:\n")
	for _, s := range statuses {
		b.WriteString("  " + s + "\n")
	}
	b.WriteString("\nExamples:\n")
	for _, s := range examples {
		b.WriteString("  " + s + "\n")
	}
	return b.String()
}

// Lines of "Exit status" that many commands share.
const (
	status0       = "0  done"
	status1       = "1  it failed, or nothing listens on the control socket"
	status2       = "2  wrong usage or configuration"
	status1Absent = "1  there is no such exception, it failed, or nothing listens on the control socket"
)

// page is what --help shows of a command, or of the program.
func page(app *ucli.App, line commandLine) []byte {
	var b bytes.Buffer
	path := strings.Join(line.path, " ")
	usage, args, text, commands, flags := app.Usage, "", about, app.Commands, []ucli.Flag(nil)
	if c := line.command; c != nil {
		usage, args, text, commands, flags = c.Usage, c.ArgsUsage, c.Description, c.Subcommands, c.Flags
	}
	fmt.Fprintf(&b, "%s - %s\n\nUsage:\n  %s", path, usage, path)
	if len(flags) > 0 {
		b.WriteString(" [flags]")
	}
	if len(commands) > 0 {
		args = "COMMAND"
	}
	if args != "" {
		b.WriteString(" " + args)
	}
	b.WriteString("\n\n")
	if len(commands) > 0 {
		b.WriteString("Commands:\n")
		b.Write(columns(commandRows(commands)))
		b.WriteString("\n")
	}
	if text != "" {
		b.WriteString(strings.TrimSpace(text) + "\n\n")
	}
	if len(flags) > 0 {
		b.WriteString("Flags:\n")
		b.Write(columns(flagRows(flags)))
		b.WriteString("\n")
	}
	b.WriteString("Flags of every command:\n")
	b.Write(columns(append(flagRows(app.Flags), []string{"--help", "show this page"})))
	return b.Bytes()
}

// about is the text of the program's own page.
const about = `
Breakwater takes exceptions over a Unix socket, keeps them in one file, and hands
each to one owner at a time, in order per partition key, until it is settled.
"breakwater serve" is the appliance; the other commands send to it, ask it and
steer it, or read a copy of its file (--file). Where its configuration is missing or
broken by now, --socket PATH finds one that runs.

Exit status:
  0  done
  1  failed
  2  wrong usage or configuration
  3  done, but something was quarantined, in conflict, or found wrong
  4  rejected: stored nowhere, try again
  5  the drain was not clean; what was left is put back`

// commandRows are the rows of a list of commands.
func commandRows(commands []*ucli.Command) (rows [][]string) {
	for _, c := range commands {
		if !c.Hidden {
			rows = append(rows, []string{c.Name, c.Usage})
		}
	}
	return rows
}

// flagRows are the rows of a list of flags. The library marks the name of a flag's
// value in its usage with backquotes.
func flagRows(flags []ucli.Flag) (rows [][]string) {
	for _, f := range flags {
		name, usage := "--"+f.Names()[0], ""
		if d, ok := f.(ucli.DocGenerationFlag); ok {
			usage = d.GetUsage()
		}
		if before, rest, ok := strings.Cut(usage, "`"); ok {
			value, after, _ := strings.Cut(rest, "`")
			name, usage = name+" "+value, before+value+after
		}
		rows = append(rows, []string{name, usage})
	}
	return rows
}

// columns sets rows of two texts in two columns, the second wrapped to the width of
// a plain terminal.
func columns(rows [][]string) []byte {
	const most = 80
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	var b bytes.Buffer
	for _, r := range rows {
		margin := strings.Repeat(" ", width+4)
		head := fmt.Sprintf("  %-*s  ", width, r[0])
		for _, line := range wrap(r[1], most-len(margin)) {
			b.WriteString(head + line + "\n")
			head = margin
		}
	}
	return b.Bytes()
}

// wrap breaks a text between words into lines of at most width bytes.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func (e *env) helpCommand() *ucli.Command {
	return &ucli.Command{
		Name: "help", Usage: "show the page of a command", ArgsUsage: "[COMMAND…]",
		Description: manual(`Shows the same page as "COMMAND --help".`,
			[]string{status0, status2}, "breakwater help dlq replay"),
		Action: func(c *ucli.Context) error {
			words := append([]string{e.Args[0]}, c.Args().Slice()...)
			app := e.app()
			line, err := arrange(app, append(words, "--help"))
			if err != nil {
				return err
			}
			return write(e.Stdout, page(app, line))
		},
	}
}
