package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) keysCommand() *ucli.Command {
	return &ucli.Command{
		Name: "keys", Usage: "list, hold and release partition keys",
		Subcommands: []*ucli.Command{e.keysListCommand(), e.holdCommand(), e.releaseCommand()},
	}
}

func (e *env) holdCommand() *ucli.Command {
	return &ucli.Command{
		Name: "hold", Usage: "make partition keys wait", ArgsUsage: "KEY…",
		Description: manual(`
Hands out nothing more of these partition keys until they are released; what is
leased may be settled, and new lines are taken. A hold outlives a restart. A key
needs no exceptions to be held. Holding a held key changes nothing. Who holds which
key, since when and why is shown by "keys list --held" and "why".`,
			[]string{status0, "1  a key could not be held (10,000 are, which is the limit), or it failed", status2},
			"breakwater keys hold ACME --reason \"dispute 17\""),
		Flags: []ucli.Flag{reasonFlag(), byFlag()},
		Action: func(c *ucli.Context) error {
			return e.keys(c, "held", func(control *client.Control, a api.KeysAct) (api.Keys, error) {
				return control.HoldKeys(c.Context, a)
			})
		},
	}
}

func (e *env) releaseCommand() *ucli.Command {
	return &ucli.Command{
		Name: "release", Usage: "undo a hold", ArgsUsage: "KEY…",
		Description: manual(`
Undoes "keys hold", and nothing else: a key that also waits for a time (a retry, or a
hold that a handler or a consumer asked for) or behind a dead letter goes on waiting
for that, and it says so.

--waits ends the time that a key waits for, too, whatever it is: its first exception
may be handed out at once. Failures that were counted stay counted. The trail says who
did it, why, and until when it would have waited (KEY_RELEASED). A dead letter is not
undone by it: "breakwater dlq replay" or "dlq discard" end that.`,
			[]string{status0, "1  of a key there was nothing to undo, or it failed", status2},
			"breakwater keys release ACME", "breakwater keys release ACME --waits --reason \"the date was a slip\""),
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "waits", Usage: "also end the time that a retry, a handler or a consumer has them wait for"},
			reasonFlag(), byFlag(),
		},
		Action: func(c *ucli.Context) error {
			return e.keys(c, "released", func(control *client.Control, a api.KeysAct) (api.Keys, error) {
				a.Waits = c.Bool("waits")
				return control.ReleaseKeys(c.Context, a)
			})
		},
	}
}

func (e *env) keys(c *ucli.Context, done string, act func(*client.Control, api.KeysAct) (api.Keys, error)) error {
	if !c.Args().Present() {
		return usageFor(c, "a partition key is missing")
	}
	for _, key := range c.Args().Slice() {
		if err := checkKey(c, key); err != nil {
			return err
		}
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
			no := e.refusals()
			for _, r := range k.Items {
				what, hint := keyResult(&r, done, c.Bool("waits")), keyHint(&r, c.Bool("waits"))
				if r.Code != "" {
					no.add(r.Key+": "+what, hint)
					continue
				}
				text = fmt.Appendf(text, "%s: %s\n", oneLine(r.Key), oneLine(what))
				no.also(hint)
			}
			err = write(e.Stdout, text)
			no.print()
		}
		if k.Failed > 0 {
			return quiet(exitFailed)
		}
		return err
	})
}

// keyResult says what became of one key: what was done, and what it waits for still.
func keyResult(r *api.Result, done string, waits bool) string {
	what := done
	if r.Code != "" {
		what = r.Code + ": " + r.Error
	}
	switch w := r.Wait; {
	case w == nil:
	case waits:
		what += "; the " + waitText(w) + " is over"
	default:
		what += "; it waits for the " + waitText(w)
	}
	if r.Letter != 0 {
		what += fmt.Sprintf("; it waits for dead letter %d", r.Letter)
	}
	return what
}

// keyHint is what can be done where a key was not held or released, or waits still; "" if
// nothing has to be.
func keyHint(r *api.Result, waits bool) string {
	switch {
	case r.Wait != nil && !waits:
		return "breakwater keys release --waits " + keyWord(r.Key) + " ends that wait, too"
	case r.Letter != 0:
		return "breakwater why " + keyArgument(r.Key) + " says what ends a dead letter"
	case r.Code == string(queue.CodeSaturated):
		return "breakwater keys list --held has all that are held: release some"
	case r.Code != "":
		return "breakwater keys list --held has all keys that are held, and what for"
	}
	return ""
}

// checkKey refuses what can be no partition key.
func checkKey(c *ucli.Context, key string) error {
	if key == "" {
		return usageFor(c, "%q is not a partition key: none is empty", key)
	}
	return nil
}

func (e *env) keysListCommand() *ucli.Command {
	return &ucli.Command{
		Name: "list", Usage: "list partition keys, those that are stuck first",
		Description: manual(`
Lists the partition keys that have open exceptions, wait for a dead letter or are
held by an operator, in the order in which a person should look at them: "blocked" by
a dead letter (or damaged bytes), "held" by an operator, for a retry, or until a time
that a handler named, "busy" while somebody works on them, "ready". Of each: how many
exceptions are open, when the first of them was accepted, what they are worth (sums
of amounts without their signs, per currency), and what it waits for: by itself, and
because everything does (a pause, a drain), or all whose first exception has its route
(no consumer is attached, or the handler cannot be had). With --json "waits_for" has
the causes as "why" has them, without the text of a failure or of a hold.

Within a state the order has no meaning: it is that of a hash of the key, so it is the
same each time and says nothing of age or amount. For another order use --json and a
sort.

A key of which everything is scheduled is not listed. A key that changes its state
meanwhile may be shown twice, or not at all. "why KEY" says more about one.`,
			[]string{"0  done, also if there are none", status1, status2},
			"breakwater keys list --blocked", "breakwater keys list --held --limit 20",
			"breakwater keys list --json --file copy.db | jq -r .key"),
		Flags: []ucli.Flag{
			fileFlag(),
			&ucli.BoolFlag{Name: "blocked", Usage: "those that only a person can set free"},
			&ucli.BoolFlag{Name: "held", Usage: "those that an operator holds, or that wait for a time"},
			&ucli.BoolFlag{Name: "busy", Usage: "those that somebody works on"},
			&ucli.IntFlag{Name: "limit", Usage: "at most `N` of them"},
		},
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			state := ""
			for _, s := range []string{api.KeyBlocked, api.KeyHeld, api.KeyBusy} {
				switch {
				case !c.Bool(s):
				case state != "":
					return usageFor(c, "--%s and --%s exclude each other", state, s)
				default:
					state = s
				}
			}
			if c.IsSet("limit") && c.Int("limit") < 1 {
				return usageFor(c, "--limit must be a number from 1")
			}
			return e.ask(c, func(control *client.Control) error { return e.keysList(c, control, state) })
		},
	}
}

func (e *env) keysList(c *ucli.Context, control *client.Control, state string) error {
	rows := e.listing("PARTITION KEY", "STATE", "OPEN", "FIRST ACCEPTED", "AMOUNT", "WAITS FOR")
	var first *api.Key
	letters := 0        // keys that are blocked by some
	n, more := 0, false // one more than the limit is read, to know whether there is
	for k, err := range control.Keys(c.Context, state, c.Int("limit")+1) {
		if err != nil {
			return rows.cut(err)
		}
		if more = n == c.Int("limit") && n > 0; more {
			break
		}
		if n++; first == nil {
			first = &k
		}
		if k.State == api.KeyBlocked && k.Letter != nil {
			letters++
		}
		if c.Bool("json") {
			err = e.printJSON(k)
		} else {
			err = rows.add(keyRow(&k)...)
		}
		if err != nil {
			return rows.cut(err)
		}
	}
	if c.Bool("json") {
		return nil
	}
	if err := rows.end("no key is " + cmp.Or(state, "open, held or blocked")); err != nil {
		return err
	}
	var text []byte
	if more {
		text = []byte("and more: leave --limit out\n")
	}
	return write(e.Stdout, append(text, nextText(e.aim.at(nextOfKeys(first, letters)))...))
}

// keyName is a key for a column. One that cannot be read is none.
func keyName(k *api.Key) string {
	if k.Key == "" {
		return "(cannot be read)"
	}
	return short(k.Key, 32)
}

// amountsText is sums per currency: "12.50 EUR, 7 JPY".
func amountsText(amounts []api.Amount) string {
	var parts []string
	for _, a := range amounts {
		parts = append(parts, amountText(a.Amount, a.Currency))
	}
	return strings.Join(parts, ", ")
}

// amountText is an amount with its currency, if it has one.
func amountText(amount, currency string) string {
	if currency == "none" {
		return amount
	}
	return amount + " " + currency
}

// waitText is a time that a key waits for: "hold of seq 3 until 2099-01-01T00:00:00Z".
func waitText(w *api.KeyWait) string { return clock{}.wait(w) }

// clock says when something was or will be: as a moment, or if it knows what time it is
// now as the time between, which takes less room.
type clock struct{ now api.Time }

func (c clock) since(t api.Time) string {
	if c.now.IsZero() || t.IsZero() {
		return "since " + moment(t)
	}
	return "for " + rough(c.now.Sub(t.Time))
}

func (c clock) until(t api.Time) string {
	if c.now.IsZero() || t.IsZero() {
		return "until " + moment(t)
	}
	return "for " + rough(t.Sub(c.now.Time)) + " more"
}

// rough is a length of time in the largest unit that it has one of, rounded down: "3h".
func rough(d time.Duration) string {
	text := api.LengthText(d)
	return text[:1+strings.IndexAny(text, "ydhms")]
}

func (c clock) wait(w *api.KeyWait) string {
	what := "hold"
	if w.Retry {
		what = "retry"
	}
	return fmt.Sprintf("%s of seq %d %s", what, w.Seq, c.until(w.Until))
}

// ownReasons are those that a key's own members tell, in fewer words.
var ownReasons = []queue.Reason{queue.WhyDamaged, queue.WhyBlocked, queue.WhyOperator, queue.WhyRetry, queue.WhyHold, queue.WhyLeased}

// waits is what a key waits for, in short, and what keeps everything or its route.
func (c clock) waits(k *api.Key) string {
	var parts []string
	if k.Damaged != 0 {
		parts = append(parts, "the damaged bytes of seq "+strconv.FormatUint(k.Damaged, 10))
	}
	if l := k.Letter; l != nil {
		text := fmt.Sprintf("dead letter %d %s: %s", l.Seq, c.since(l.DeadAt), l.Code)
		if l.Reason != "" {
			text += ": " + short(l.Reason, 60)
		}
		if l.Count > 1 {
			text += fmt.Sprintf(" (and %d more)", l.Count-1)
		}
		parts = append(parts, text)
	}
	if h := k.Hold; h != nil {
		text := "held by " + cmp.Or(h.By, "an operator") + " " + c.since(h.Since)
		if h.Reason != "" {
			text += ": " + short(h.Reason, 60)
		}
		parts = append(parts, text)
	}
	if w := k.Wait; w != nil {
		parts = append(parts, c.wait(w))
	}
	if h := k.Holder; h != nil {
		parts = append(parts, fmt.Sprintf("%s, who has seq %d %s", short(h.Owner, 32), h.Seq, c.until(h.Deadline)))
	}
	for i := range k.WaitsFor {
		if cause := &k.WaitsFor[i]; !slices.Contains(ownReasons, queue.Reason(cause.Reason)) {
			parts = append(parts, short(cause.Words, 200))
		}
	}
	return strings.Join(parts, "; ")
}
