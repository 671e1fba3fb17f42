package cli

import (
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"breakwater/queue"
)

// The scripts ask the program itself what may follow, so that they never know less
// than it does. Where it has nothing to say, the shell completes file names.
const (
	bashScript = `# breakwater completion for bash: source <(breakwater completion bash)
_breakwater() {
    local IFS=$'\n'
    COMPREPLY=($(breakwater __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _breakwater breakwater
`
	zshScript = `#compdef breakwater
# breakwater completion for zsh: source <(breakwater completion zsh)
_breakwater() {
    local -a found
    found=("${(@f)$(breakwater __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[*]}" ]]; then
        compadd -a found
    else
        _files
    fi
}
if [[ "${funcstack[1]}" = _breakwater ]]; then
    _breakwater "$@"
else
    compdef _breakwater breakwater
fi
`
	fishScript = `# breakwater completion for fish: breakwater completion fish | source
function __breakwater_complete
    set -l words (commandline -opc) (commandline -ct)
    breakwater __complete -- $words[2..-1] 2>/dev/null
end
complete -c breakwater -a '(__breakwater_complete)'
`
)

// shells are those that there is a script for.
var shells = []string{"bash", "zsh", "fish"}

func (e *env) completionCommand() *ucli.Command {
	return &ucli.Command{
		Name: "completion", Usage: "print a completion script for a shell", ArgsUsage: "bash|zsh|fish",
		Description: manual(`
Prints a script to be read by the shell. It completes commands, flags, and the
values of flags that take one of a few words.`,
			[]string{status0, status2},
			"source <(breakwater completion bash)",
			"breakwater completion zsh > \"${fpath[1]}/_breakwater\"",
			"breakwater completion fish > ~/.config/fish/completions/breakwater.fish"),
		Action: func(c *ucli.Context) error {
			if err := atMostArgs(c, 1); err != nil {
				return err
			}
			scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
			script, ok := scripts[c.Args().First()]
			if !ok {
				last := len(shells) - 1
				return usageFor(c, "the shell must be %s or %s", strings.Join(shells[:last], ", "), shells[last])
			}
			return write(e.Stdout, []byte(script))
		},
	}
}

// completeCommand is what the scripts ask. Its arguments are the words so far; the
// last one, which may be empty, is to be completed.
func (e *env) completeCommand() *ucli.Command {
	return &ucli.Command{
		Name: "__complete", Hidden: true, Usage: "say what may follow the words given",
		Action: func(c *ucli.Context) error {
			words := c.Args().Slice()
			if len(words) == 0 {
				words = []string{""}
			}
			var out []byte
			for _, s := range complete(e.app(), words) {
				out = append(append(out, s...), '\n')
			}
			return write(e.Stdout, out)
		},
	}
}

// complete lists what the last word may become: a command, a flag, or one of the
// few values that the flag before it, or the command, takes. Nothing means that it
// is an argument that only a person or the file system knows.
func complete(app *ucli.App, words []string) (found []string) {
	done, word := words[:len(words)-1], words[len(words)-1]
	if slices.Contains(done, "--") {
		return nil
	}
	flags, commands, name := app.Flags, app.Commands, ""
	awaiting := "" // a flag whose value comes next
	for _, w := range done {
		switch {
		case awaiting != "":
			awaiting = ""
		case strings.HasPrefix(w, "-"):
			awaiting = valueFlag(flags, strings.TrimLeft(w, "-"))
		default:
			if c := find(commands, w); c != nil {
				flags, commands, name = append(slices.Clone(flags), c.Flags...), c.Subcommands, c.Name
			}
		}
	}
	switch {
	case awaiting != "":
		found = valuesOf(awaiting)
	case strings.HasPrefix(word, "-"):
		for _, f := range flags {
			found = append(found, "--"+f.Names()[0])
		}
		found = append(found, "--help")
	case name == "completion":
		found = shells
	default:
		found = commandNames(commands)
	}
	return slices.DeleteFunc(slices.Clone(found), func(s string) bool { return !strings.HasPrefix(s, word) })
}

// valueFlag returns name if it is a flag that waits for a value, else "".
func valueFlag(flags []ucli.Flag, name string) string {
	f := flagNamed(flags, name)
	if f == nil {
		return ""
	}
	if _, isBool := f.(*ucli.BoolFlag); isBool {
		return ""
	}
	return name
}

// valuesOf lists the values of a flag that takes one of a few words.
func valuesOf(flag string) (values []string) {
	switch flag {
	case "event":
		for _, e := range queue.Events {
			values = append(values, string(e))
		}
	case "routes":
		for _, r := range queue.Routes {
			values = append(values, string(r))
		}
	case "code":
		for _, c := range deadCodes {
			values = append(values, string(c))
		}
	}
	return values
}

// deadCodes are the codes that a dead letter can have.
var deadCodes = []queue.Code{
	queue.CodePoison, queue.CodeConflict, queue.CodeRejected, queue.CodeAttemptsExhausted, queue.CodeDeliveriesExhausted,
}
