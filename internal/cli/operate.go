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
			return e.setPause(c, func(control *client.Control, a api.Act) (api.PauseState, error) {
				return control.Pause(c.Context, a)
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
			return e.setPause(c, func(control *client.Control, a api.Act) (api.PauseState, error) {
				return control.Resume(c.Context, a)
			})
		},
	}
}

func (e *env) setPause(c *ucli.Context, set func(*client.Control, api.Act) (api.PauseState, error)) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	return e.steer(c, func(control *client.Control) error {
		s, err := set(control, api.Act{By: e.by(c), Reason: c.String("reason")})
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return e.printJSON(s)
		case s.Paused == nil:
			return write(e.Stdout, []byte("claims go on\n"))
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

func (e *env) keysCommand() *ucli.Command {
	return &ucli.Command{
		Name: "keys", Usage: "hold and release partition keys",
		Subcommands: []*ucli.Command{
			{
				Name: "hold", Usage: "make partition keys wait", ArgsUsage: "KEY…",
				Description: manual(`
Hands out nothing more of these partition keys until they are released; what is
leased may be settled, and new lines are taken. A hold outlives a restart. A key
needs no exceptions to be held. Holding a held key changes nothing.`,
					[]string{status0, "1  a key could not be held, or it failed", status2},
					"breakwater keys hold ACME --reason \"dispute 17\""),
				Flags: []ucli.Flag{reasonFlag(), byFlag()},
				Action: func(c *ucli.Context) error {
					return e.keys(c, "held", func(control *client.Control, a api.KeysAct) (api.Keys, error) {
						return control.HoldKeys(c.Context, a)
					})
				},
			},
			{
				Name: "release", Usage: "undo a hold", ArgsUsage: "KEY…",
				Description: manual(`
Undoes "keys hold", and nothing else: a key that also waits for a retry or behind a
dead letter goes on waiting for that ("breakwater dlq replay", "dlq discard").`,
					[]string{status0, "1  a key was not held, or it failed", status2},
					"breakwater keys release ACME"),
				Flags: []ucli.Flag{reasonFlag(), byFlag()},
				Action: func(c *ucli.Context) error {
					return e.keys(c, "released", func(control *client.Control, a api.KeysAct) (api.Keys, error) {
						return control.ReleaseKeys(c.Context, a)
					})
				},
			},
		},
	}
}

func (e *env) keys(c *ucli.Context, done string, act func(*client.Control, api.KeysAct) (api.Keys, error)) error {
	if !c.Args().Present() {
		return usageFor(c, "a partition key is missing")
	}
	return e.steer(c, func(control *client.Control) error {
		k, err := act(control, api.KeysAct{Keys: c.Args().Slice(), By: e.by(c), Reason: c.String("reason")})
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			err = e.printJSON(k)
		default:
			var text []byte
			for _, r := range k.Items {
				what := done
				if r.Code != "" {
					what = r.Code + ": " + r.Error
				}
				text = fmt.Appendf(text, "%s: %s\n", oneLine(r.Key), oneLine(what))
			}
			err = write(e.Stdout, text)
		}
		if k.Failed > 0 {
			return quiet(exitFailed)
		}
		return err
	})
}
