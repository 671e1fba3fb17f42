package cli

import (
	"errors"
	"io"
	"os"
	"os/user"
	"strings"
	"syscall"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
	"breakwater/internal/client"
	"breakwater/queue"
)

// fileFlag lets a read command ask a copy.
func fileFlag() ucli.Flag {
	return &ucli.StringFlag{Name: "file", TakesFile: true, Usage: "read `COPY`, a copy of a store's file or one whose breakwater has ended, and ask nobody"}
}

// ask asks the running breakwater, or with --file a copy, and says what went wrong as
// a person needs it. A copy is read without a configuration: it may come from another
// host.
func (e *env) ask(c *ucli.Context, question func(*client.Control) error) error {
	path := c.String("file")
	switch {
	case path == "":
		return e.steer(c, question)
	case c.String("socket") != "":
		return usageFor(c, "--file and --socket are two places to ask")
	}
	progress, end := e.stepBar()
	copied, err := app.OpenCopy(c.Context, path, e.Version, progress)
	end()
	if err != nil {
		return badCopy(err)
	}
	control := client.NewControlOver(copied.Dial)
	err = question(control)
	control.Close()
	return explain(errors.Join(err, copied.Close()))
}

// badCopy gives the error of a file that cannot be read as a copy a hint for whoever has
// it: it is not to be taken into service, which is what the hints of a start are about.
func badCopy(err error) error {
	var c coded
	if !errors.As(err, &c) {
		return err
	}
	hint := ""
	switch c.Code() {
	case "STORE_EMPTY", "STORE_TRUNCATED", "STORE_DAMAGED":
		hint = "it is no whole copy: compare it with the original, or take another one"
	case "STORE_FOREIGN":
		hint = "check the path; the file was left as it is"
	default:
		return err
	}
	return &failure{status: exitFailed, err: err, hint: hint}
}

// withSocket gives a command, or all of its subcommands, the flag that names the socket
// of who is asked.
func withSocket(c *ucli.Command) *ucli.Command {
	for _, sub := range c.Subcommands {
		withSocket(sub)
	}
	if len(c.Subcommands) == 0 {
		c.Flags = append(c.Flags, &ucli.StringFlag{
			Name: "socket", TakesFile: true, Usage: socketUsage,
		})
	}
	return c
}

// steer asks the running breakwater, whose socket the command line or the configuration
// names. With --socket no configuration is read: what is wrong with a file does not keep
// anybody from a breakwater that runs with what it read before.
func (e *env) steer(c *ucli.Context, question func(*client.Control) error) error {
	path := c.String("socket")
	if path == "" {
		cfg, err := e.config(c)
		if err != nil {
			return withoutConfig(err)
		}
		path = cfg.Sockets.Control.Path
	}
	control := client.NewControl(path)
	defer control.Close()
	return explain(question(control))
}

// withoutConfig adds to the error of a configuration the way around it.
func withoutConfig(err error) error {
	const way = "--socket PATH asks a breakwater that runs, at its control.sock, without a configuration"
	f := &failure{status: exitFailed, err: err, hint: way}
	var known *failure
	var a adviser
	switch {
	case errors.As(err, &known):
		f.status, f.hint = known.status, known.hint+"; "+way
	case errors.As(err, &a) && a.Advice() != "":
		f.hint = a.Advice() + "; " + way
	}
	return f
}

// explain gives an error of a question its exit status and its hint.
func explain(err error) error {
	var p *client.Problem
	var f *failure
	switch {
	case err == nil, errors.As(err, &f):
		return err
	case errors.Is(err, client.ErrNobody) && errors.Is(err, os.ErrPermission):
		return &failure{status: exitFailed, err: err, hint: "the control socket is for the user that breakwater runs as, and root"}
	case errors.Is(err, client.ErrNobody):
		return &failure{status: exitFailed, err: err,
			hint: `start it with "breakwater serve", or name its configuration with --config, or its control.sock with --socket; --file reads a copy of its file`}
	case errors.Is(err, client.ErrSilent):
		return &failure{status: exitFailed, err: err,
			hint: "it is stopped (kill -CONT goes on), or the host is out of breath; what was asked for may still be done. kill -9 and a start are safe: what was answered is kept"}
	case errors.Is(err, client.ErrOtherSocket):
		return &failure{status: exitUsage, err: err, hint: "this command asks control.sock: give its path with --socket, or leave it out and the configuration has it"}
	case errors.Is(err, client.ErrNotText):
		return &failure{status: exitUsage, err: err, hint: "nothing was changed; give it as UTF-8, and with --by who acts if your user's name is not"}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE) && !errors.Is(err, errPipe):
		return &failure{status: exitFailed, err: err, hint: "breakwater closed the connection; its log says why"}
	case !errors.As(err, &p):
		return err
	}
	f = &failure{status: exitFailed, err: err, hint: p.Hint}
	if p.Code == string(queue.CodeUsage) {
		f.status = exitUsage
	}
	if strings.Contains(f.hint, "/v1/") {
		f.hint = "" // it is for those who speak HTTP
	}
	if f.hint == "" {
		f.hint = hintOfCode(queue.Code(p.Code))
	}
	for _, reason := range p.Reasons {
		f.err = errors.Join(f.err, errors.New(reason))
	}
	return f
}

// isCode reports whether err is an answer with this code.
func isCode(err error, code queue.Code) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Code == string(code)
}

// byFlag names who acts.
func byFlag() ucli.Flag {
	return &ucli.StringFlag{Name: "by", Usage: "record `WHO` as the one who did it; default $SUDO_USER, else the user's name"}
}

// by is who acts, as far as they say. What the kernel says is recorded besides.
func (e *env) by(c *ucli.Context) string {
	if who := c.String("by"); who != "" {
		return who
	}
	if who := e.Getenv("SUDO_USER"); who != "" {
		return who
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
