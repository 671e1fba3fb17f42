package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/client"
	"breakwater/internal/config"
)

func (e *env) consumeCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "consume",
		Usage:     "take exceptions, by hand or with a command for each",
		ArgsUsage: "[-- CMD ARG…]",
		Description: manual(`
Attaches to the consume socket under a name and takes what is routed to consumers,
until it is interrupted. A lost connection is made again, and a restart of
breakwater is waited for; meanwhile the exceptions that it has stay its own.

With CMD, each exception is handed to a run of CMD: the object on its stdin, its exit
status and the first line of its stdout are the answer, as of an exec handler
(docs/protocol.md), and the end of its stderr is kept in the trail. Leases are
extended while CMD runs. At most --prefetch run at once, never two of one partition
key. SIGTERM and ctrl-c let what runs finish, a second one cuts it off; what was not
begun is put back. When CMD is not available (exit status 69, 77, 78, or it cannot be
started) the exception is put back uncounted, all others with it, and it is tried
again after 1 s, 2 s, 4 s … at most a minute. A CMD that is not there at the beginning
is wrong usage. Exit status 0 settles the exception as DONE, unless the first line of
stdout begins with {: then it is an answer, or, if it cannot be read or has over
65,536 bytes, a retry. Any other text is ignored. At the end a summary is printed.
Without --env CMD has PATH and BREAKWATER_… only.

Without CMD it is a filter: each exception that is handed out is one line on stdout,
each line on stdin is an answer ({"ack":"LEASE","outcome":"APPROVED"}; docs/protocol.md
has them all), confirmed by nothing but an error on stderr if it is refused. What was
printed once is not printed again after a lost connection: its lease is good. Nothing is
extended by itself. At the end of stdin, when all answers are confirmed, it leaves, and
what was not answered is put back.`,
			[]string{
				"0  it was told to end, or --max is reached, or stdin has ended",
				"1  nobody listens on the consume socket, or the name is in use",
				"2  wrong usage or configuration, or breakwater refuses what is asked for",
				"3  without CMD: an answer was refused or not understood, and changed nothing",
			},
			"breakwater consume --name post-journal --routes ROUTE_REVIEW -- /usr/local/bin/post-journal",
			"breakwater consume --name alice --by alice --lease-timeout 10m",
			"breakwater consume --name ui-1 --prefetch 16 <answers | review-tool >answers"),
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "name", Usage: "attach as `NAME`; required. The trail shows it; who attaches under it later, as the same user, has its leases"},
			&ucli.StringFlag{Name: "routes", Usage: "take only these `ROUTES`, separated by commas"},
			&ucli.IntFlag{Name: "prefetch", Usage: "have at most `N` exceptions at once; default 1", Value: 1},
			&ucli.DurationFlag{Name: "lease-timeout", Usage: "have each for `TIME` (30s, 10m); default queue.lease_timeout_ms"},
			&ucli.StringFlag{Name: "by", Usage: "record `WHO` as the one who decided, where the answer does not say; default nobody"},
			&ucli.IntFlag{Name: "max", Usage: "end when `N` exceptions were answered; no more than these are shown or run"},
			&ucli.DurationFlag{Name: "timeout", Usage: "give each run of CMD this `TIME`; default " + config.DefaultHandlerTimeout.String(), Value: config.DefaultHandlerTimeout},
			&ucli.StringFlag{Name: "env", Usage: "pass the variables `NAMES` on to CMD, separated by commas"},
			&ucli.StringFlag{Name: "socket", TakesFile: true, Usage: "attach to the socket at `PATH` instead of the configured one"},
		},
		Action: e.consume,
	}
}

// consuming is what both ways to consume share.
type consuming struct {
	*env
	client.Consumer
	by string
}

func (e *env) consume(c *ucli.Context) error {
	command := c.Args().Slice()
	if len(command) > e.trailing {
		return usageFor(c, "unexpected argument %q; a command stands after --", command[0])
	}
	if e.dashes && len(command) == 0 { // a variable that is not set must not make another program of it
		return usageFor(c, "a command is missing after --")
	}
	a := &consuming{env: e, by: c.String("by"), Consumer: client.Consumer{
		Path: c.String("socket"), Name: c.String("name"), Prefetch: c.Int("prefetch"), Lease: c.Duration("lease-timeout"),
		Max: c.Int("max"), Waiting: e.sayWaiting,
	}}
	switch {
	case a.Name == "":
		return usageFor(c, "--name is missing")
	case a.Prefetch < 1:
		return usageFor(c, "--prefetch cannot be %d", a.Prefetch)
	case a.Max < 0 || c.IsSet("max") && a.Max == 0:
		return usageFor(c, "--max cannot be %d", a.Max)
	case c.IsSet("lease-timeout") && a.Lease < time.Millisecond:
		return usageFor(c, "--lease-timeout cannot be %v", a.Lease)
	}
	if a.Routes = listOf(c.String("routes")); c.IsSet("routes") && len(a.Routes) == 0 {
		return usageFor(c, "--routes names none; leave it out for all of them")
	}
	if a.Path == "" {
		cfg, err := e.config(c)
		if err != nil {
			return err
		}
		a.Path = cfg.Sockets.Consume.Path
	}
	if len(command) == 0 {
		for _, flag := range []string{"timeout", "env"} {
			if c.IsSet(flag) {
				return usageFor(c, "--%s is for a command, and there is none", flag)
			}
		}
		return a.explain((&filter{consuming: a}).run(c.Context))
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return usageFor(c, "%v", err)
	}
	r, err := newCommandRuns(a, command, c.Duration("timeout"), listOf(c.String("env")))
	if err != nil {
		return usageFor(c, "%v", err)
	}
	if err = r.run(c.Context); err != nil && r.counts == (consumed{}) {
		return a.explain(err) // it never came to anything
	}
	return errors.Join(a.explain(err), r.summary(c))
}

// listOf splits a list of names.
func listOf(text string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// explain gives an error its exit status and its hint.
func (a *consuming) explain(err error) error {
	switch {
	case errors.Is(err, client.ErrNameInUse):
		return &failure{status: exitFailed, err: err, hint: "end the other consumer, or take another --name"}
	case errors.Is(err, client.ErrOtherSocket):
		return &failure{status: exitUsage, err: err, hint: "consumers attach to consume.sock: give its path with --socket, or leave it out and the configuration has it"}
	case errors.Is(err, client.ErrUsage):
		return &failure{status: exitUsage, err: err, hint: usageHint(err)}
	case errors.Is(err, client.ErrRefused):
		return &failure{status: exitFailed, err: err, hint: `end another consumer, or raise max_connections of socket "consume"`}
	case errors.Is(err, client.ErrLost):
		return &failure{status: exitFailed, err: err, hint: `start it with "breakwater serve", or name its socket with --socket`}
	case errors.Is(err, context.Canceled):
		return nil // it was told to end
	}
	return err
}

// usageHint says where to look for what an attachment may ask for.
func usageHint(err error) string {
	if strings.Contains(err.Error(), "max_") {
		return "queue.max_prefetch and queue.max_lease_timeout_ms bound what a consumer may ask for"
	}
	return `see "breakwater consume --help"; "breakwater status" lists the routes that are for consumers`
}

// say tells a person what is not ordinary. There is nowhere else to say it.
func (a *consuming) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Stderr, "breakwater: %s\n", oneLine(fmt.Sprintf(format, args...)))
}
