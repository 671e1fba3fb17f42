package cli

import (
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

// arrange moves flags before arguments, level by level, because people write
// "show 42 --json" and the library stops at the first argument. What follows "--"
// stays as it is. Global flags may stand anywhere.
func arrange(app *ucli.App, args []string) ([]string, error) {
	if len(args) == 0 {
		return args, nil
	}
	words, rest := args[1:], []string(nil)
	if i := slices.Index(words, "--"); i >= 0 {
		words, rest = words[:i], words[i:]
	}
	global, words, err := pick(words, app.Flags)
	if err != nil {
		return nil, err
	}
	out := append([]string{args[0]}, global...)
	commands := app.Commands
	for len(words) > 0 {
		at := slices.IndexFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") || w == "-" })
		if at < 0 {
			break
		}
		c := find(commands, words[at])
		if c == nil {
			break
		}
		out = append(out, c.Name)
		words = slices.Delete(slices.Clone(words), at, at+1)
		var flags []string
		if flags, words, err = pick(words, c.Flags); err != nil {
			return nil, err
		}
		if len(c.Subcommands) == 0 {
			return append(append(append(out, flags...), words...), rest...), nil
		}
		out, commands = append(out, flags...), c.Subcommands
	}
	return append(append(out, words...), rest...), nil
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

// pick takes the flags that are known here, with their values, out of words.
func pick(words []string, known []ucli.Flag) (flags, left []string, err error) {
	for i := 0; i < len(words); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		f := flagNamed(known, name)
		if f == nil || !strings.HasPrefix(words[i], "-") || words[i] == "-" {
			left = append(left, words[i])
			continue
		}
		flags = append(flags, words[i])
		if _, isBool := f.(*ucli.BoolFlag); isBool || joined {
			continue
		}
		if i++; i == len(words) {
			return nil, nil, usageErrorf("flag --%s needs a value", name)
		}
		flags = append(flags, words[i])
	}
	return flags, left, nil
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
