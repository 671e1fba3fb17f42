package cli

import (
	"cmp"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

// aim is whom a command line names: the configuration, control socket or copy that it
// gives. A command that is suggested has to be about the same, so it repeats them.
type aim struct {
	config, socket, file string
	commands             []aimed
}

// aimed is a command that may be suggested.
type aimed struct {
	name         string // "keys list"
	socket, file bool   // which of the flags it knows
}

// socketUsage tells the --socket of those who ask a breakwater from that of producers
// and consumers, whose socket is another.
const socketUsage = "ask at the control socket `PATH`, and read no configuration"

// aimOf reads it off a command line that has been understood.
func aimOf(app *ucli.App, line commandLine) aim {
	a := aim{config: line.values["config"], file: line.values["file"]}
	if line.command != nil && asksControl(line.command) {
		a.socket = line.values["socket"]
	}
	if a.config != "" || a.socket != "" || a.file != "" {
		a.commands = aimedAt("", app.Commands)
	}
	return a
}

// asksControl reports whether a command's --socket is the control socket.
func asksControl(c *ucli.Command) bool {
	f, ok := flagNamed(c.Flags, "socket").(*ucli.StringFlag)
	return ok && f.Usage == socketUsage
}

// aimedAt are the commands below a path, those with longer names first.
func aimedAt(path string, commands []*ucli.Command) (all []aimed) {
	for _, c := range commands {
		name := strings.TrimSpace(path + " " + c.Name)
		all = append(all, aimedAt(name, c.Subcommands)...)
		all = append(all, aimed{name: name, socket: asksControl(c), file: flagNamed(c.Flags, "file") != nil})
	}
	slices.SortStableFunc(all, func(a, b aimed) int { return cmp.Compare(len(b.name), len(a.name)) })
	return all
}

// at is a text that names commands, each with what leads it to whom the text is about.
// What stands in quotes for a shell is somebody's key or name, and stays as it is.
func (a *aim) at(text string) string {
	if len(a.commands) == 0 {
		return text
	}
	var b strings.Builder
	for text != "" {
		n := quotedWord(text)
		if n == 0 {
			if command, of := a.command(text); of > 0 {
				b.WriteString(command)
				text = text[of:]
				continue
			}
			n = strings.IndexByte(text, ' ') + 1
		}
		if n == 0 {
			n = len(text)
		}
		b.WriteString(text[:n])
		text = text[n:]
	}
	return b.String()
}

// command is the command that a text begins with, led to whom it is about, and how many
// bytes of the text it stands for; 0: it begins with none.
func (a *aim) command(text string) (command string, of int) {
	const program = "breakwater "
	bare := strings.TrimLeft(text, `"(`)
	rest, ok := strings.CutPrefix(bare, program)
	at := slices.IndexFunc(a.commands, func(c aimed) bool { return ok && begins(rest, c.name) })
	if at < 0 {
		return "", 0
	}
	c := &a.commands[at]
	if strings.HasPrefix(rest[len(c.name):], " --help") {
		return "", 0
	}
	command = text[:len(text)-len(bare)] + program
	switch {
	case a.file != "" && c.file:
		command += c.name + " --file " + shellWord(a.file)
	case a.socket != "" && c.socket:
		command += c.name + " --socket " + shellWord(a.socket)
	case a.config != "":
		command += "--config " + shellWord(a.config) + " " + c.name
	default:
		command += c.name
	}
	return command, len(text) - len(rest) + len(c.name)
}

// quotedWord is the length of a word in quotes, as shellWord writes it, that a text
// begins with, also behind a flag (--owner='a b'); 0: it begins with none.
func quotedWord(text string) int {
	n := 0
	if strings.HasPrefix(text, "--") {
		n = strings.IndexAny(text, "= ") + 1
	}
	begin := text[n:]
	if !strings.HasPrefix(begin, "'") && !strings.HasPrefix(begin, "$'") {
		return 0
	}
	quoted, escapes := false, false
	for n < len(text) && (quoted || text[n] != ' ') {
		switch c := text[n]; {
		case c == '\\' && (escapes || !quoted):
			n++ // what follows stands for itself
		case c == '\'':
			escapes = !quoted && n > 0 && text[n-1] == '$'
			quoted = !quoted
		}
		n++
	}
	return min(n, len(text))
}

// begins reports whether a text begins with a word, and not with one that goes on.
func begins(text, word string) bool {
	rest, ok := strings.CutPrefix(text, word)
	return ok && (rest == "" || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz-", rune(rest[0])))
}
