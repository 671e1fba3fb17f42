package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
	"breakwater/internal/config"
)

// commandLine is a command line that has been understood: which command it names,
// and its words in the order that the library wants.
type commandLine struct {
	command *ucli.Command // nil: none was named
	path    []string      // its names, from the program's on
	args    []string      // flags before arguments, level by level
	help    bool          // somebody asked for help: nothing is run

	values map[string]string // of the flags that name whom to ask: config, socket, file

	dashes   bool // "--" was among the words
	trailing int  // how many of the last words stood after it
}

// reading is a command line that is being read.
type reading struct {
	commandLine
	app    *ucli.App
	levels []level // the program, its command, its subcommand
	words  []string
}

// level is one command of the path, with the flags that were given for it.
type level struct {
	name  string
	flags []ucli.Flag
	given []string
	seen  []string // the names of those flags
}

// arrange reads the words of a command line. Flags may stand anywhere after the
// command that knows them, because people write "show 42 --json" while the library
// stops at the first argument. What follows "--" is arguments. A word that nobody
// knows is an error here: the library would take it for an argument.
func arrange(app *ucli.App, words []string) (commandLine, error) {
	if len(words) == 0 {
		return commandLine{}, usageErrorf("a command is missing")
	}
	r := &reading{app: app, levels: []level{{name: words[0], flags: app.Flags}}}
	r.path = []string{app.Name}
	var err error
	for words = words[1:]; len(words) > 0 && err == nil; {
		switch word := words[0]; {
		case word == "--":
			r.dashes, r.trailing = true, len(words)-1
			r.words, words = append(r.words, words[1:]...), nil
		case word == "-" || !strings.HasPrefix(word, "-"):
			err = r.word(word)
			words = words[1:]
		default:
			words, err = r.flag(words)
		}
	}
	if err == nil && !r.help && (r.command == nil || len(r.command.Subcommands) > 0) {
		err = r.incomplete()
	}
	if err == nil && !r.help && !slices.Contains(takeBytes, r.command.Name) {
		err = r.allText()
	}
	return r.finish(), err
}

// takeBytes are the commands whose arguments are names of files, or another command's
// words: any bytes. All other arguments are text.
var takeBytes = []string{"enqueue", "consume", "__complete", app.SealCommand}

// allText refuses arguments that are not UTF-8, which JSON cannot hold: each byte at
// fault would become U+FFFD on its way, and name or record something else.
func (r *reading) allText() error {
	for _, word := range r.words {
		if !utf8.ValidString(word) {
			return r.notText("%s%q is not UTF-8", r.at(), word)
		}
	}
	return nil
}

// notText is the usage error for what must be text.
func (r *reading) notText(format string, args ...any) error {
	f := r.usage(format, args...).(*failure)
	f.hint = "keys, names and texts are UTF-8: no exception and no record has other bytes; " + f.hint
	return f
}

// has reports whether the flag was given already, by any of its names.
func (l *level) has(f ucli.Flag) bool {
	return slices.ContainsFunc(f.Names(), func(name string) bool { return slices.Contains(l.seen, name) })
}

// repeats reports whether a flag may be given more than once. Of one that has a single
// value the library would take the last, and what the first was to check or to select
// would be dropped in silence.
func repeats(f ucli.Flag) bool {
	switch f.(type) {
	case *ucli.BoolFlag, *ucli.StringSliceFlag:
		return true
	}
	return false
}

// mayBeEmpty reports whether a flag's value may be empty. Of one that selects, or names
// whom to ask, an empty one is a variable of a script that nobody has set: taken for a
// flag that was not given, "dlq discard --all --code ”" would discard all there is, and
// "status --file ”" would ask another breakwater.
func mayBeEmpty(f ucli.Flag) bool {
	switch f.(type) {
	case *ucli.StringFlag, *ucli.StringSliceFlag:
		return slices.Contains([]string{"by", "reason", "env"}, f.Names()[0])
	}
	return true // the library judges what is no text
}

// emptyFlag is the usage error for a flag without a value.
func (r *reading) emptyFlag(name string) error {
	f := r.usage("%s--%s is empty", r.at(), name).(*failure)
	f.hint = "leave it out if it is not meant (is it a variable of the shell that is not set?); " + f.hint
	return f
}

// isText reports whether a flag's value is text; else it names a file, or is read as
// something that only ASCII can be.
func isText(f ucli.Flag) bool {
	switch f := f.(type) {
	case *ucli.StringFlag:
		return !f.TakesFile
	case *ucli.StringSliceFlag:
		return !f.TakesFile
	}
	return false
}

// word takes a command's name or an argument.
func (r *reading) word(word string) error {
	commands := r.app.Commands
	if r.command != nil {
		commands = r.command.Subcommands
	}
	if len(commands) == 0 {
		r.words = append(r.words, word)
		return nil
	}
	c := find(commands, word)
	if c == nil {
		return r.unknown("command", word, commandNames(commands))
	}
	r.command, r.path = c, append(r.path, c.Name)
	r.levels = append(r.levels, level{name: c.Name, flags: c.Flags})
	return nil
}

// flag takes a flag and its value, and returns the words that follow.
func (r *reading) flag(words []string) ([]string, error) {
	name, value, joined := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
	if name == "h" || name == "help" {
		r.help = true
		return words[1:], nil
	}
	for i := range r.levels {
		l := &r.levels[len(r.levels)-1-i]
		f := flagNamed(l.flags, name)
		if f == nil {
			continue
		}
		if l.has(f) && !repeats(f) {
			return nil, r.usage("%s--%s is given twice", r.at(), name)
		}
		n := 2
		if _, isBool := f.(*ucli.BoolFlag); isBool || joined {
			n = 1
		}
		if len(words) < n {
			return nil, r.usage("the flag --%s needs a value", name)
		}
		if n == 2 {
			value = words[1]
		}
		if value == "" && !mayBeEmpty(f) {
			return nil, r.emptyFlag(name)
		}
		if isText(f) && !utf8.ValidString(value) {
			return nil, r.notText("%s--%s: %q is not UTF-8", r.at(), name, value)
		}
		if slices.Contains([]string{"config", "socket", "file"}, name) {
			if r.values == nil {
				r.values = map[string]string{}
			}
			r.values[name] = value
		}
		l.given, l.seen = append(l.given, words[:n]...), append(l.seen, name)
		return words[n:], nil
	}
	var known []string
	for _, l := range r.levels {
		for _, f := range l.flags {
			known = append(known, "--"+f.Names()[0])
		}
	}
	if r.command == nil && ofACommand(r.app.Commands, name) {
		return nil, r.usage("the flag --%s goes behind the command", name)
	}
	return nil, r.unknown("flag", "--"+name, known)
}

// ofACommand reports whether any of the commands, or of those below them, has the flag.
func ofACommand(commands []*ucli.Command, name string) bool {
	return slices.ContainsFunc(commands, func(c *ucli.Command) bool {
		return flagNamed(c.Flags, name) != nil || ofACommand(c.Subcommands, name)
	})
}

// at is what an error begins with: the command, below the program, which says itself.
func (r *reading) at() string {
	if len(r.path) == 1 {
		return ""
	}
	return strings.Join(r.path, " ") + ": "
}

// unknown is the error for a word that nobody knows.
func (r *reading) unknown(what, word string, known []string) error {
	if near := nearest(word, known); near != "" {
		return r.usage("%sthere is no %s %q; is %q meant?", r.at(), what, word, near)
	}
	return r.usage("%sthere is no %s %q", r.at(), what, word)
}

// incomplete is the error for a command that is nothing without a subcommand.
func (r *reading) incomplete() error {
	commands := r.app.Commands
	if r.command != nil {
		commands = r.command.Subcommands
	}
	return r.usage("%sa command is missing; there are %s", r.at(), strings.Join(commandNames(commands), ", "))
}

// usage is a usage error whose hint names the page of the command.
func (r *reading) usage(format string, args ...any) error {
	f := usageErrorf(format, args...).(*failure)
	f.hint = `see "` + strings.Join(append(r.path, "--help"), " ") + `"`
	return f
}

// finish puts the words in the library's order.
func (r *reading) finish() commandLine {
	for _, l := range r.levels {
		r.args = append(append(r.args, l.name), l.given...)
	}
	r.args = append(append(r.args, "--"), r.words...)
	return r.commandLine
}

// commandNames are the names that a person is told.
func commandNames(commands []*ucli.Command) (names []string) {
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// find returns the command of this name or alias.
func find(commands []*ucli.Command, name string) *ucli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// flagNamed returns the flag of this name or alias.
func flagNamed(flags []ucli.Flag, name string) ucli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// nearest returns the name that a mistyped word was probably meant to be: one that
// it begins, or one that is at most two letters away.
func nearest(word string, names []string) string {
	best, least := "", 3
	for _, name := range names {
		d := config.EditDistance(word, name)
		if len(strings.Trim(word, "-")) > 1 && strings.HasPrefix(name, word) {
			d = 0
		}
		if d < least && d < len(word) {
			best, least = name, d
		}
	}
	return best
}
