package cli

import (
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
)

// reasonFlag says why.
func reasonFlag() ucli.Flag { return &ucli.StringFlag{Name: "reason", Usage: "record `WHY`"} }

func (e *env) pauseCommand() *ucli.Command {
	return &ucli.Command{
		Name: "pause", Usage: "hand out nothing new until resume",
		Description: manual(`
Stops claims. Lines are still taken, and what is leased may be settled. A pause
outlives a restart; it says who ordered it, since when and why. A second one changes
nothing.`,
			[]string{status0, status1, status2},
			"breakwater pause --reason \"ledger migration\"", "breakwater pause --by alice --json"),
		Flags: []ucli.Flag{reasonFlag(), byFlag()},
		Action: func(c *ucli.Context) error {
			return e.setPause(c, func(control *client.Control, a api.Act) (api.PauseState, string, error) {
				s, err := control.Pause(c.Context, a)
				return s, "", err
			})
		},
	}
}

func (e *env) resumeCommand() *ucli.Command {
	return &ucli.Command{
		Name: "resume", Usage: "end a pause",
		Description: manual(`Lets claims go on. Without a pause it changes nothing.`,
			[]string{status0, status1, status2}, "breakwater resume"),
		Flags: []ucli.Flag{reasonFlag(), byFlag()},
		Action: func(c *ucli.Context) error {
			return e.setPause(c, func(control *client.Control, a api.Act) (api.PauseState, string, error) {
				was, unknown := control.Status(c.Context) // only for what to say: it stops no resume
				s, err := control.Resume(c.Context, a)
				if unknown == nil && was.Paused == nil {
					return s, "nothing was paused: claims go on as before\n", err
				}
				return s, "claims go on\n", err
			})
		},
	}
}

// setPause pauses or resumes; set returns what to say if there is no pause then.
func (e *env) setPause(c *ucli.Context, set func(*client.Control, api.Act) (api.PauseState, string, error)) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	return e.steer(c, func(control *client.Control) error {
		s, unpaused, err := set(control, api.Act{By: e.by(c), Reason: c.String("reason")})
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return e.printJSON(s)
		case s.Paused == nil:
			return write(e.Stdout, []byte(unpaused))
		}
		return write(e.Stdout, fmt.Appendf(nil, "paused %s\n", oneLine(pauseText(s.Paused))))
	})
}

func (e *env) drainCommand() *ucli.Command {
	return &ucli.Command{
		Name: "drain", Usage: "end breakwater as SIGTERM does",
		Description: manual(`
Begins the drain and returns at once: lines that wait are refused, running handlers
finish within queue.drain_timeout_s, the rest is put back, and breakwater ends. Under
systemd use "systemctl stop", which does the same and does not start it again.`,
			[]string{"0  the drain has begun", status1, status2}, "breakwater drain --reason upgrade"),
		Flags: []ucli.Flag{reasonFlag(), byFlag()},
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			return e.steer(c, func(control *client.Control) error {
				s, err := control.Drain(c.Context, api.Act{By: e.by(c), Reason: c.String("reason")})
				switch {
				case err != nil:
					return err
				case c.Bool("json"):
					return e.printJSON(s)
				}
				return write(e.Stdout, []byte("draining\n"))
			})
		},
	}
}
