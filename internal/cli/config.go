package cli

import (
	"encoding/json"
	"errors"
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/config"
)

func (e *env) configCommand() *ucli.Command {
	return &ucli.Command{
		Name: "config", Usage: "check and show the configuration, and how it has changed",
		Subcommands: []*ucli.Command{
			{
				Name: "check", Usage: "list everything that is wrong with the configuration",
				Description: manual(`
Lists every problem at once, with file and line, then what this host lacks for it
(folders, programs, permissions, the address of metrics.listen), then what is
allowed but probably not meant. Permissions are those of whoever asks. Nothing is
changed or tried, and no running breakwater is asked: an address that is in use is
no problem while one with this configuration runs, which will be who has it.`,
					[]string{
						"0  nothing is wrong; there may be warnings", "1  it failed",
						"2  the file has problems: breakwater would not start with it",
						"3  the file is sound, but this host is not ready for it",
					},
					"breakwater config check", "breakwater --config /etc/breakwater/config.hcl config check",
					"breakwater config check --json | jq -r '.problems[].message'"),
				Action: e.configCheck,
			},
			{
				Name: "show", Usage: "print the configuration in force for this command line",
				Description: manual(`
Prints every key with its value, defaults included and secrets masked, as a file
that could be used; with --json as {"file":…,"config":{…}}. The first line says
which file was read.`,
					[]string{status0, "1  it failed", status2},
					"breakwater config show", "breakwater config show --json | jq .config.queue"),
				Action: e.configShow,
			},
			withSocket(e.configHistoryCommand()),
		},
	}
}

// configFindings is what config check prints as JSON.
type configFindings struct {
	File     string           `json:"file"` // "" for the built-in defaults
	OK       bool             `json:"ok"`
	Problems []config.Problem `json:"problems"`
	Omitted  int              `json:"omitted,omitempty"` // problems that are not listed
	Host     []config.Problem `json:"host"`
	Warnings []config.Problem `json:"warnings"`
}

func (e *env) configCheck(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	found := configFindings{Problems: []config.Problem{}, Host: []config.Problem{}, Warnings: []config.Problem{}}
	found.File, _ = config.Find(c.String("config"), e.Getenv)
	cfg, err := config.Load(found.File)
	var problems *config.Problems
	switch {
	case errors.As(err, &problems):
		found.Problems, found.Omitted = problems.List, problems.Omitted
	case err != nil:
		return err
	default:
		found.Host = append(found.Host, cfg.CheckHost()...)
		found.Warnings = append(found.Warnings, cfg.Warnings()...)
	}
	found.OK = len(found.Problems)+len(found.Host) == 0
	if err := e.printFindings(c, &found); err != nil {
		return err
	}
	switch {
	case len(found.Problems) > 0:
		return quiet(exitUsage)
	case len(found.Host) > 0:
		return quiet(exitFindings)
	}
	return nil
}

func (e *env) printFindings(c *ucli.Context, found *configFindings) error {
	if c.Bool("json") {
		return e.printJSON(found)
	}
	var text []byte
	for _, p := range found.Problems {
		text = fmt.Appendln(text, oneLine(p.String()))
	}
	if found.Omitted > 0 {
		text = fmt.Appendf(text, "and %d more\n", found.Omitted)
	}
	for _, p := range found.Host {
		text = fmt.Appendf(text, "this host: %s\n", oneLine(p.String()))
	}
	for _, p := range found.Warnings {
		text = fmt.Appendf(text, "warning: %s\n", oneLine(p.String()))
	}
	if found.OK {
		text = fmt.Appendf(text, "%s: nothing is wrong\n", oneLine(fileName(found.File)))
	}
	return write(e.Stdout, text)
}

// fileName names the file of a configuration.
func fileName(path string) string {
	if path == "" {
		return "built-in defaults (there is no file)"
	}
	return path
}

func (e *env) configShow(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	cfg, err := e.config(c)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return e.printJSON(struct {
			File   string          `json:"file"`
			Config json.RawMessage `json:"config"`
		}{cfg.File(), cfg.Effective()})
	}
	return write(e.Stdout, fmt.Appendf(nil, "# %s\n%s", oneLine(fileName(cfg.File())), cfg.HCL()))
}

// config reads the configuration that the command line, the environment or the
// usual places name.
func (e *env) config(c *ucli.Context) (config.Config, error) {
	path, _ := config.Find(c.String("config"), e.Getenv)
	cfg, err := config.Load(path)
	var problems *config.Problems
	if !errors.As(err, &problems) {
		return cfg, err
	}
	for _, p := range problems.List {
		_, _ = fmt.Fprintln(e.Stderr, oneLine(p.String())) // the error below says it too
	}
	n := len(problems.List) + problems.Omitted
	return cfg, &failure{
		status: exitUsage, err: fmt.Errorf("%s: the configuration has %d %s", fileName(path), n, plural(n, "problem", "problems")),
		hint: `"breakwater --config ` + shellWord(path) + ` config check" lists them again`,
	}
}

// plural picks the word for n things.
func plural[N int64 | uint64 | int](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
