package cli

import (
	"errors"
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
)

func (e *env) reloadCommand() *ucli.Command {
	return &ucli.Command{
		Name: "reload", Usage: "have the running breakwater read its configuration again",
		Description: manual(`
Has the running breakwater read its file again, as SIGHUP does, and waits for the
answer: which file that was, and each key that changed. It is the file that "serve" was
started with, whatever --config says here, which only finds the socket. One that was
started without a file has none to read, and says so.

All of it comes into force, or nothing: what is wrong, or needs a restart, is listed on
stderr, one reason a line, and the configuration before stays. A delivery that runs is
finished by the handler that began it. What changed is in the trail (CONFIG_CHANGED)
with who ordered it.`,
			[]string{
				"0  it is in force", "1  it failed; nobody listens, or it could not be recorded",
				"2  it was refused, or wrong usage",
			},
			"breakwater reload", "breakwater reload --by alice --reason \"more retries\" --json"),
		Flags:  []ucli.Flag{reasonFlag(), byFlag()},
		Action: e.reload,
	}
}

func (e *env) reload(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	return e.steer(c, func(control *client.Control) error {
		s, err := control.Reload(c.Context, api.Act{By: e.by(c), Reason: c.String("reason")})
		var refused *client.Problem
		switch {
		case errors.As(err, &refused) && len(refused.Reasons) > 0:
			for _, reason := range refused.Reasons {
				_, _ = fmt.Fprintln(e.Stderr, oneLine(reason)) // the error below says that there were some
			}
			return &failure{status: exitUsage, err: errors.New(refused.Detail), hint: refused.Hint}
		case err != nil:
			return err
		case c.Bool("json"):
			return e.printJSON(s)
		}
		return write(e.Stdout, reloadedText(&s))
	})
}

// reloadedText says what a reload read and changed. Where breakwater has no file, one
// that lies here by now is not read: that must not look like a success.
func reloadedText(s *api.ReloadState) []byte {
	switch {
	case s.File == "":
		return []byte("nothing to read: breakwater was started without a file, with built-in values; only a restart makes it read one\n")
	case len(s.Changed) == 0:
		return fmt.Appendf(nil, "reloaded %s: nothing has changed\n", oneLine(s.File))
	}
	text := fmt.Appendf(nil, "reloaded %s: changed\n", oneLine(s.File))
	for _, key := range s.Changed {
		text = fmt.Appendf(text, "  %s\n", oneLine(key))
	}
	return text
}
