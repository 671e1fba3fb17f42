package cli

import (
	"fmt"
	"runtime"

	ucli "github.com/urfave/cli/v2"
)

func (e *env) versionCommand() *ucli.Command {
	return &ucli.Command{
		Name: "version", Usage: "print the version",
		Description: manual(`Prints the version of this program and of the Go it was built with.`,
			[]string{status0, status2}, "breakwater version", "breakwater version --json"),
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			if !c.Bool("json") {
				return write(e.Stdout, fmt.Appendf(nil, "breakwater %s (%s)\n", e.Version, runtime.Version()))
			}
			return e.printJSON(struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{e.Version, runtime.Version()})
		},
	}
}
