package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"
)

// tree is a small command tree to read command lines with.
func tree() *ucli.App {
	return &ucli.App{
		Name:  "prog",
		Flags: []ucli.Flag{&ucli.StringFlag{Name: "config"}, &ucli.BoolFlag{Name: "json"}},
		Commands: []*ucli.Command{
			{Name: "show", Flags: []ucli.Flag{&ucli.BoolFlag{Name: "key"}, &ucli.StringFlag{Name: "since"}}},
			{Name: "list", Subcommands: []*ucli.Command{
				{Name: "hold", Flags: []ucli.Flag{&ucli.StringFlag{Name: "reason"}}}, {Name: "secret", Hidden: true},
			}},
		},
	}
}

func TestArrange(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"prog show 42 --json --key", "prog --json show --key -- 42"},
		{"prog --json --config f show --since=x 42", "prog --json --config f show --since=x -- 42"},
		{"prog show --since x 42 --config f -", "prog --config f show --since x -- 42 -"},
		{"prog list hold a --reason b c", "prog list hold --reason b -- a c"},
		{"prog list --json hold -- --reason b", "prog --json list hold -- --reason b"},
		{"prog show --since --json", "prog show --since --json --"},
		{"prog show -json show", "prog -json show -- show"},
	} {
		line, err := arrange(tree(), strings.Fields(c.in))
		if got := strings.Join(line.args, " "); err != nil || strings.TrimSpace(got) != c.want {
			t.Errorf("%s: %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestArrange_refuses(t *testing.T) {
	for in, want := range map[string]string{
		"prog":                  "a command is missing; there are show, list",
		"prog list":             "prog list: a command is missing; there are hold",
		"prog list --json":      "prog list: a command is missing; there are hold",
		"prog shwo":             `there is no command "shwo"; is "show" meant?`,
		"prog zzz":              `there is no command "zzz"`,
		"prog list hlod":        `prog list: there is no command "hlod"; is "hold" meant?`,
		"prog show --reason x":  `prog show: there is no flag "--reason"`,
		"prog list hold --reas": `prog list hold: there is no flag "--reas"; is "--reason" meant?`,
		"prog show 1 --since":   "the flag --since needs a value",
		"prog --key show":       `the flag --key goes behind the command`,

		"prog show --since 1 2 --since=3":    "prog show: --since is given twice",
		"prog --config a show --config b 42": "prog show: --config is given twice",
	} {
		_, err := arrange(tree(), strings.Fields(in))
		f, ok := err.(*failure)
		if !ok || f.status != exitUsage || f.Error() != want || !strings.Contains(f.hint, "--help") {
			t.Errorf("%s: %v, want %q, status %d and a hint", in, err, want, exitUsage)
		}
	}
}

func TestArrange_help_runs_nothing(t *testing.T) {
	for in, want := range map[string]string{
		"prog -h": "prog", "prog --help show": "prog show", "prog list": "", "prog list --help": "prog list",
		"prog list hold x --help": "prog list hold", "prog show -- --help": "",
	} {
		line, _ := arrange(tree(), strings.Fields(in))
		if got := strings.Join(line.path, " "); line.help != (want != "") || line.help && got != want {
			t.Errorf("%s: help %v of %q, want of %q", in, line.help, got, want)
		}
	}
}

// each calls do for every command of the real tree.
func each(commands []*ucli.Command, path string, do func(path string, c *ucli.Command)) {
	for _, c := range commands {
		do(strings.TrimSpace(path+" "+c.Name), c)
		each(c.Subcommands, path+" "+c.Name, do)
	}
}

func (e *env) tested(t *testing.T) *ucli.App {
	t.Helper()
	e.Process = Process{Args: []string{"breakwater"}, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }}
	return e.app()
}

// TestPages: each command explains itself.
func TestPages(t *testing.T) {
	app, pages := new(env).tested(t), 0
	each(app.Commands, "breakwater", func(path string, c *ucli.Command) {
		if c.Hidden {
			return
		}
		pages++
		line, err := arrange(app, append(strings.Fields(path), "--help"))
		if err != nil || !line.help {
			t.Errorf("%s --help: %v", path, err)
		}
		text := string(page(app, line))
		for i, l := range strings.Split(text, "\n") {
			if len([]rune(l)) > 100 || strings.TrimRight(l, " ") != l {
				t.Errorf("%s: line %d of its page is too long or ends in blanks: %q", path, i+1, l)
			}
		}
		if c.Usage == "" || len(c.Subcommands) == 0 && (!strings.Contains(text, "\nExit status:\n  0  ") || !strings.Contains(text, "\nExamples:\n  ")) {
			t.Errorf("%s: its page lacks usage, exit statuses or examples", path)
		}
		for _, f := range c.Flags {
			if f.(ucli.DocGenerationFlag).GetUsage() == "" {
				t.Errorf("%s: the flag --%s is not explained", path, f.Names()[0])
			}
		}
	})
	if pages < 5 {
		t.Errorf("only %d commands were looked at", pages)
	}
}

// TestExamples: what the pages tell people to type is understood.
func TestExamples(t *testing.T) {
	app, tried := new(env).tested(t), 0
	each(app.Commands, "breakwater", func(path string, c *ucli.Command) {
		_, examples, _ := strings.Cut(c.Description, "Examples:\n")
		for example := range strings.Lines(examples) {
			at := strings.Index(example, "breakwater ")
			typed, _, _ := strings.Cut(example[max(at, 0):], "|")
			typed, _, _ = strings.Cut(typed, ">")
			words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(typed), ")"))
			tried++
			line, err := arrange(app, words)
			if at < 0 || err != nil || strings.Join(line.path, " ") != path && c.Name != "help" {
				t.Errorf("%s: its example %q: %v", path, strings.TrimSpace(example), err)
			}
		}
	})
	if tried < 5 {
		t.Errorf("only %d examples were found", tried)
	}
}

func TestComplete(t *testing.T) {
	app := new(env).tested(t)
	for words, want := range map[string]string{
		"|se":                      "serve",
		"|__":                      "",
		"config|":                  "check show history",
		"--json config|sh":         "show",
		"enqueue|--re":             "--receipts",
		"|be":                      "bench",
		"bench|--s":                "--seconds",
		"--config x|--js":          "--json",
		"completion|":              "bash zsh fish",
		"completion|z":             "zsh",
		"enqueue|":                 "",
		"enqueue --receipts|":      "",
		"enqueue --|--re":          "",
		"enqueue file|--help":      "--help",
		"--config|--":              "",
		"nothing of the sort|serv": "serve",
	} {
		before, last, _ := strings.Cut(words, "|")
		if got := strings.Join(complete(app, append(strings.Fields(before), last)), " "); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"serve", "status", "show"}
	for word, want := range map[string]string{"serv": "serve", "statsu": "status", "x": "", "shwo": "show", "server": "serve", "": "", "sta": "status"} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// TestRun_prints_nowhere_else: an error leaves stdout empty.
func TestRun_prints_nowhere_else(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	complaints, err := os.CreateTemp(t.TempDir(), "err")
	if err != nil {
		t.Fatal(err)
	}
	p := Process{Args: []string{"breakwater", "nothing"}, Stdin: os.Stdin, Stdout: out, Stderr: complaints, Getenv: os.Getenv}
	if got := Run(context.Background(), context.Background(), p); got != exitUsage {
		t.Errorf("status %d, want %d", got, exitUsage)
	}
	printed, _ := os.ReadFile(out.Name())
	said, _ := os.ReadFile(complaints.Name())
	if len(printed) > 0 || !slices.Equal(strings.Split(string(said), "\n"), []string{
		`breakwater: error: there is no command "nothing"`, `hint: see "breakwater --help"`, "",
	}) {
		t.Errorf("stdout %q, stderr %q", printed, said)
	}
}

// TestArgs_of_a_command_before_it: who writes a flag too early is told where it goes.
func TestArgs_of_a_command_before_it(t *testing.T) {
	for line, want := range map[string]string{
		"--socket x status":  "the flag --socket goes behind the command",
		"--reason x dlq":     "the flag --reason goes behind the command",
		"--sockets x status": `there is no flag "--sockets"`,
	} {
		status, said := provoke(t, nil, "", strings.Fields(line)...)
		if status != exitUsage || !strings.Contains(said, want) {
			t.Errorf("%s: %d, %s, want %s", line, status, said, want)
		}
	}
}
