package cli

import (
	"os/signal"
	"syscall"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
	"breakwater/internal/kin"
)

// guardCommand is the child that ends what a process has started, when that process has
// ended.
func (e *env) guardCommand() *ucli.Command {
	return &ucli.Command{
		Name: app.GuardCommand, Hidden: true, Usage: "end what a process has left, for the process that started it", ArgsUsage: "MARK",
		Action: func(c *ucli.Context) error {
			// What asks the service to end, whose processes may all be told, is not for it:
			// it ends last.
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			if c.NArg() != 1 {
				return usageFor(c, "it is the server's own")
			}
			return kin.Guard(c.Args().First(), e.Stdin)
		},
	}
}
