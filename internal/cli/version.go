package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	ucli "github.com/urfave/cli/v2"
)

func (e *env) versionCommand() *ucli.Command {
	return &ucli.Command{
		Name: "version", Usage: "print the version", OnUsageError: onUsageError,
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			if !c.Bool("json") {
				return write(e.Stdout, fmt.Appendf(nil, "breakwater %s (%s)\n", e.Version, runtime.Version()))
			}
			doc, err := json.Marshal(map[string]string{"version": e.Version, "go": runtime.Version()})
			if err != nil {
				return err
			}
			return write(e.Stdout, append(doc, '\n'))
		},
	}
}
