package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) dlqEditCommand() *ucli.Command {
	return &ucli.Command{
		Name: "edit", Usage: "give a dead letter other content", ArgsUsage: "SEQ",
		Description: manual(`
Changes what a dead letter says, shows the difference, asks, and stores it: for
"breakwater dlq replay" to put back. The line that was sent is kept beside it, and the
trail records both. The gates judge the new line first; if one refuses it, nothing is
changed. Afterwards what was sent and what it became are both duplicates of this one
exception.

--set changes a member of the line and leaves every other byte as it was sent; it may be
given several times, as may --unset, which removes one. A value is text, unless the member
is there and is something else (priority, say): then it is JSON. Without either, the line
is opened in $VISUAL or $EDITOR, spread over several lines; --line takes a whole new line
from a file, or from stdin with "-". If the text of an editor is refused, it is kept, and
the hint says where.

An exception that has been in the order keeps its idempotency_key, partition_key and
not_before. A line that a gate refused, or in conflict, may get any; a conflict needs an
idempotency_key of its own before it can be replayed. If somebody else has edited the
letter meanwhile, the edit is refused. An edited letter may be edited again.`,
			[]string{
				"0  edited (or would be); also if nothing differs", "1  refused, not a dead letter, or it failed", status2,
			},
			"breakwater dlq edit 42 --set currency=EUR", "breakwater dlq edit 42",
			"breakwater dlq edit 43 --set idempotency_key=k1-b --reason \"sent twice by mistake\" --yes",
			"breakwater dlq edit 44 --line corrected.json --dry-run"),
		Flags: []ucli.Flag{
			&ucli.StringSliceFlag{Name: "set", Usage: "set a member of the line, as `MEMBER=VALUE`; may be repeated"},
			&ucli.StringSliceFlag{Name: "unset", Usage: "remove a `MEMBER`; may be repeated"},
			&ucli.StringFlag{Name: "line", TakesFile: true, Usage: "take the whole line from `FILE`; - is stdin"},
			&ucli.BoolFlag{Name: "dry-run", Usage: "change nothing, show the difference and what the gates say"},
			&ucli.BoolFlag{Name: "yes", Usage: "do not ask"},
			reasonFlag(), byFlag(),
		},
		Action: func(c *ucli.Context) error {
			seq, err := oneSeqArg(c)
			if err != nil {
				return err
			}
			byMembers := c.IsSet("set") || c.IsSet("unset")
			switch {
			case byMembers && c.IsSet("line"):
				return usageFor(c, "--line gives the whole line: --set and --unset go without it")
			case !byMembers && !c.IsSet("line") && e.editor() == "":
				return usageFor(c, "say how: --set, --unset, --line, or an editor in $EDITOR")
			case !c.Bool("yes") && !c.Bool("dry-run") && (c.Bool("json") || !term.IsTerminal(int(e.Stdin.Fd()))):
				return usageFor(c, "there is nobody to ask: say --yes, or --dry-run")
			}
			return e.steer(c, func(control *client.Control) error {
				ed := editing{env: e, c: c, control: control, seq: seq}
				return ed.run()
			})
		},
	}
}

// editing is one edit of a dead letter.
type editing struct {
	*env
	c       *ucli.Context
	control *client.Control
	seq     uint64
	letter  api.Detail
	line    []byte // what it is now
	kept    string // the file that holds what an editor made
}

// run finds the new line, shows what differs, asks, and stores it.
func (ed *editing) run() error {
	var err error
	if ed.letter, err = ed.control.DeadLetter(ed.c.Context, ed.seq); err != nil {
		return letterError(err, ed.seq)
	}
	ed.line = presentLine(&ed.letter.Exception)
	line, err := ed.newLine()
	if err != nil {
		return err
	}
	if bytes.Equal(line, ed.line) {
		return ed.same()
	}
	if !utf8.Valid(line) { // a line that was sent may be so; no gate takes it, and no request can carry it
		return &failure{status: exitFailed, err: errors.New("the new line is not UTF-8; nothing was changed"),
			hint: cmp.Or(ed.keptHint(line), "give the line as UTF-8")}
	}
	act := api.EditAct{
		Seq: ed.seq, Was: presentHash(&ed.letter.Exception), Line: string(line),
		By: ed.by(ed.c), Reason: ed.c.String("reason"), DryRun: true,
	}
	// What the gates say comes before the question, not after it.
	done, err := ed.control.Edit(ed.c.Context, act)
	if err != nil {
		return ed.refused(err, line)
	}
	if !ed.c.Bool("json") {
		if err := write(ed.Stdout, table(changeRows(changesOf(ed.line, line)))); err != nil {
			return err
		}
	}
	if !ed.c.Bool("dry-run") {
		if !ed.c.Bool("yes") && !ed.agreed() {
			return &failure{status: exitFailed, err: errors.New("nothing was changed"), hint: cmp.Or(ed.keptHint(line), "only y stores it; --yes does not ask")}
		}
		act.DryRun = false
		if done, err = ed.control.Edit(ed.hurry, act); err != nil {
			return ed.refused(err, line)
		}
	}
	ed.drop()
	switch {
	case ed.c.Bool("json"):
		return ed.printJSON(done)
	case done.DryRun:
		return write(ed.Stdout, []byte("the gates would take it; nothing was changed\n"))
	}
	return write(ed.Stdout, []byte(oneLine(ed.aim.at(fmt.Sprintf("seq %d edited; \"breakwater dlq replay %d\" puts it back", ed.seq, ed.seq)))+"\n"))
}

// presentLine is the line that a letter has now, presentHash its SHA-256.
func presentLine(x *api.Exception) []byte {
	if x.EditedSHA256 != "" {
		return []byte(x.EditedLine)
	}
	return sentLine(x)
}

func presentHash(x *api.Exception) string {
	if x.EditedSHA256 != "" {
		return x.EditedSHA256
	}
	return x.LineSHA256
}

// sentLine is the line of a letter as it was sent, so far as it is kept.
func sentLine(x *api.Exception) []byte {
	if len(x.LineBase64) > 0 {
		return x.LineBase64
	}
	return []byte(x.Line)
}

// same ends an edit in which nothing differs.
func (ed *editing) same() error {
	ed.drop()
	if ed.c.Bool("json") {
		x := &ed.letter.Exception
		c := api.Content{SourceHash: x.SourceHash, LineSHA256: presentHash(x), LineBytes: int64(len(ed.line))}
		return ed.printJSON(api.Edited{Seq: ed.seq, DryRun: true, Before: c, After: c})
	}
	return write(ed.Stdout, []byte("nothing differs; nothing was changed\n"))
}

// newLine makes the line that the letter is to have.
func (ed *editing) newLine() ([]byte, error) {
	switch {
	case ed.c.IsSet("line"):
		return ed.lineFrom(ed.c.String("line"))
	case ed.c.IsSet("set") || ed.c.IsSet("unset"):
		return ed.membersSet()
	}
	return ed.edited()
}

// membersSet is the line with the members that --set and --unset name.
func (ed *editing) membersSet() (line []byte, err error) {
	line = ed.line
	for _, name := range ed.c.StringSlice("unset") {
		if line, err = unsetMember(line, name); err != nil {
			return nil, ed.noMembers(err)
		}
	}
	for _, pair := range ed.c.StringSlice("set") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageFor(ed.c, "--set %q is not MEMBER=VALUE", pair)
		}
		if line, err = setMember(line, name, value); err != nil {
			return nil, ed.noMembers(err)
		}
	}
	return line, nil
}

// noMembers is the error for a line that --set cannot work on.
func (ed *editing) noMembers(err error) error {
	return &failure{status: exitFailed, err: err, hint: "edit the whole line: with $EDITOR, or --line FILE"}
}

// lineFrom reads a whole line from a file, or stdin.
func (ed *editing) lineFrom(path string) ([]byte, error) {
	from := ed.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, noLine(err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, api.MaxEdit+2))
	if err != nil {
		return nil, noLine(err)
	}
	line, err := oneLineOf(text, ed.line)
	if err != nil {
		return nil, noLine(err)
	}
	return line, nil
}

// noLine is the error for a file that has no line to take.
func noLine(err error) error {
	return &failure{status: exitFailed, err: fmt.Errorf("read the new line: %w", err), hint: "nothing was changed; --line wants a file with one JSON object, or - for stdin"}
}

// oneLineOf makes one line of a text: of JSON without the white space between its parts.
// A text that differs from the present line in nothing else is that line.
func oneLineOf(text, present []byte) ([]byte, error) {
	if len(text) > api.MaxEdit {
		return nil, fmt.Errorf("the line has more than %s bytes", number(api.MaxEdit))
	}
	text = bytes.TrimRight(text, "\r\n")
	if bytes.Equal(text, present) {
		return present, nil
	}
	now, was := jsontext.Value(bytes.Clone(text)), jsontext.Value(bytes.Clone(present))
	if now.Compact() != nil {
		return text, nil // the gates say what is wrong with it
	}
	if was.Compact() == nil && bytes.Equal(now, was) {
		return present, nil
	}
	if bytes.IndexByte(text, '\n') < 0 {
		return text, nil // white space and all: it is a line already
	}
	return now, nil
}

// editor is the person's editor, as a command of the shell.
func (e *env) editor() string {
	if editor := e.Getenv("VISUAL"); editor != "" {
		return editor
	}
	return e.Getenv("EDITOR")
}

// edited opens the line in an editor.
func (ed *editing) edited() ([]byte, error) {
	text := jsontext.Value(bytes.Clone(ed.line))
	if text.Indent(jsontext.WithIndent("  ")) != nil {
		text = bytes.Clone(ed.line)
	}
	text = append(text, '\n')
	if err := ed.keep(text); err != nil {
		return nil, editFailure("make a file for the editor", err, "set TMPDIR to a folder with room")
	}
	cmd := exec.CommandContext(ed.hurry, "/bin/sh", "-c", ed.editor()+` "$1"`, "sh", ed.kept)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ed.Stdin, ed.Stderr, ed.Stderr // stdout is for the result
	if err := cmd.Run(); err != nil {
		return nil, ed.editorFailed(err, text)
	}
	made, err := os.ReadFile(ed.kept)
	if err != nil {
		ed.drop()
		return nil, editFailure("read what the editor made", err, "the editor must leave the file where it was: set another in VISUAL or EDITOR")
	}
	line, err := oneLineOf(made, ed.line)
	if err != nil {
		return nil, &failure{status: exitFailed, err: err, hint: ed.keptHint(made)}
	}
	return line, nil
}

// keep writes the editor's file.
func (ed *editing) keep(text []byte) error {
	f, err := os.CreateTemp("", "breakwater-edit-*.json") // 0600
	if err != nil {
		return err
	}
	ed.kept = f.Name()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		ed.drop()
	}
	return err
}

// editFailure is the error of an edit that came to nothing.
func editFailure(doing string, err error, hint string) error {
	return &failure{status: exitFailed, err: fmt.Errorf("%s: %w", doing, err), hint: "nothing was changed; " + hint + ", or use --set or --line"}
}

// notFound is the shell's status for a command that is not there.
const notFound = 127

// editorFailed is the error of an editor that did not end well. What a person has written
// in it is kept.
func (ed *editing) editorFailed(err error, given []byte) error {
	doing := fmt.Sprintf("the editor %q failed", ed.editor())
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == notFound {
		doing = fmt.Sprintf("the editor %q is not found", ed.editor())
	}
	f := editFailure(doing, err, "set VISUAL or EDITOR to an editor that works").(*failure)
	if made, err := os.ReadFile(ed.kept); err == nil && !bytes.Equal(made, given) {
		f.hint = ed.keptHint(made)
		return f
	}
	ed.drop()
	return f
}

// drop removes the editor's file.
func (ed *editing) drop() {
	if ed.kept != "" {
		_ = os.Remove(ed.kept) // the system's folder for such files is cleaned in any case
	}
}

// keptHint says where the editor's text is.
func (ed *editing) keptHint(line []byte) string {
	if ed.kept == "" || line == nil {
		ed.drop()
		return ""
	}
	return fmt.Sprintf("what you wrote is in %s: breakwater dlq edit %d --line %s", ed.kept, ed.seq, ed.kept)
}

// refused explains a refusal. Whatever its code, the command line was understood.
func (ed *editing) refused(err error, line []byte) error {
	var p *client.Problem
	if !errors.As(err, &p) {
		return err
	}
	f := &failure{status: exitFailed, err: err, hint: ed.keptHint(line)}
	switch {
	case isCode(err, queue.CodeNotFound):
		return letterError(err, ed.seq)
	case f.hint != "": // where the text is that a person wrote
	case p.Stale():
		f.hint = fmt.Sprintf(`see "breakwater dlq show %d", and edit it again`, ed.seq)
	case p.Hint != "" && !strings.Contains(p.Hint, "/v1/"):
		f.hint = p.Hint
	default:
		f.hint = fmt.Sprintf(`nothing was changed; "breakwater dlq show %d" shows what the line is now`, ed.seq)
	}
	return f
}

// agreed asks, and reports whether the answer was yes.
func (ed *editing) agreed() bool {
	_, _ = fmt.Fprintf(ed.Stderr, "store this for seq %d? [y/N] ", ed.seq) // who does not see it will not say yes
	answer, err := bufio.NewReader(ed.Stdin).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "y" || answer == "yes")
}
