package cli

import (
	"fmt"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
)

func (e *env) statusCommand() *ucli.Command {
	return &ucli.Command{
		Name: "status", Usage: "show how much there is, how old it is and what is stuck",
		Description: manual(`
Shows how many exceptions are in each state, how many partition keys wait and what
for, what is at risk per currency and how old it is, the oldest claimable exception of
each route (its age is the lag), a pause and who ordered it, what new lines meet, who
works on the routes, what happened in the last minute, the size of the file, the head
of the trail, and how far the trail is signed, if it is. The last line names the
command to look further with, if anything asks for it: keys that dead letters block
come first, since only a person ends that; of a route that nobody works on, since no
consumer is attached or its handler cannot be had, "why" of its oldest exception. Where
both are there, it is two lines.

"ready" wait for a worker or consumer, "scheduled" for their time, "in flight" are
leased, "held" wait because their key does: for a retry, an operator, or a dead
letter before them. "intake" is open, waits (producers wait for room; the limit that
they met is named), or is full (nobody waits yet). Ages are as of the question; times are UTC.

"At risk" sums up amounts without their signs, exactly; "none" are those without a
currency. The ages of what is open, and of dead letters, count from the minute in
which an exception was accepted first (a line that a gate refused: came): no retry,
edit or replay makes it younger.`,
			[]string{status0, status1, status2},
			"breakwater status", "breakwater status --json | jq .held_keys", "breakwater status --file copy.db"),
		Flags: []ucli.Flag{fileFlag()},
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			return e.ask(c, func(control *client.Control) error {
				st, err := control.Status(c.Context)
				switch {
				case err != nil:
					return err
				case c.Bool("json"):
					return e.printJSON(st)
				}
				return write(e.Stdout, append(statusText(&st), e.nextOf(&st)...))
			})
		},
	}
}

// nextOf is the end of a status: what to type next.
func (e *env) nextOf(st *api.Status) string {
	next := nextOfStatus(st)
	for i := range next {
		next[i] = e.aim.at(next[i])
	}
	return nextText(next...)
}

// statusText is the status for people.
func statusText(st *api.Status) []byte {
	rows := [][]string{
		{"ready", number(st.Ready)},
		{"scheduled", number(st.Scheduled)},
		{"in flight", number(st.Leased)},
		{"held", number(st.Held), keysText(st)},
		{"dead letters", number(st.Dead), fmt.Sprintf("%s of them %s that a gate refused", number(st.Quarantined), plural(st.Quarantined, "a line", "lines"))},
		{"done", number(st.Done)},
		{"discarded", number(st.Discarded)},
	}
	text := table(rows)
	text = append(text, '\n')
	text = append(text, riskText(st)...)
	text = append(text, oldestText(st.Oldest)...)
	text = append(text, '\n')
	rows = nil
	if st.Paused != nil {
		rows = append(rows, []string{"paused", pauseText(st.Paused)})
	}
	if st.Draining {
		rows = append(rows, []string{"draining", "nothing new is taken or handed out"})
	} else if text := intakeText(&st.Intake); text != "" {
		rows = append(rows, []string{"intake", text})
	}
	rows = append(rows, routeRows(st)...)
	rows = append(rows,
		[]string{"file", fmt.Sprintf("%s, %s of it free", bytesText(st.Store.FileBytes), bytesText(st.Store.FreeBytes))},
		[]string{"remembered", number(st.LedgerKeys) + plural(st.LedgerKeys, " idempotency key", " idempotency keys")},
		[]string{"trail", trailText(&st.Audit)},
	)
	if st.Damaged > 0 {
		rows = append(rows, []string{"DAMAGED", fmt.Sprintf("what is stored of %s %s cannot be read: %s; see \"breakwater audit verify\"",
			number(st.Damaged), plural(st.Damaged, "exception", "exceptions"), plural(st.Damaged, "its key waits", "their keys wait"))})
	}
	if n := st.DamagedSegments; n > 0 {
		rows = append(rows, []string{"DAMAGED", fmt.Sprintf("%s %s of the ledger cannot be read in full: lines whose idempotency key may be there are rejected; see \"breakwater audit verify\"",
			number(n), plural(n, "segment", "segments"))})
	}
	if st.Checkpoint != nil {
		rows = append(rows, []string{"checkpoint", checkpointText(st.Checkpoint)})
	}
	rows = append(rows, []string{"archived", archivedText(st.Archived)})
	if !st.StartedAt.IsZero() {
		rows = append(rows, []string{"lately", recentText(st.Recent)})
		rows = append(rows, []string{"running", fmt.Sprintf("%s, version %s, %d %s attached",
			api.LengthText(st.Now.Sub(st.StartedAt.Time)), st.Version, st.Consumers, plural(st.Consumers, "consumer", "consumers"))})
	}
	return append(text, table(rows)...)
}

// keysText is how many partition keys wait, and what for.
func keysText(st *api.Status) string {
	text := fmt.Sprintf("%s of %s open %s", number(st.HeldKeys), number(st.OpenKeys), plural(st.OpenKeys, "key waits", "keys wait"))
	if st.BlockedKeys > 0 {
		text += fmt.Sprintf("; %s blocked by dead letters", number(st.BlockedKeys))
	}
	// Of the blocked keys no more than those that wait have anything open.
	switch idle := st.BlockedKeys - st.HeldKeys; {
	case idle <= 0:
	case st.HeldKeys == 0:
		text += fmt.Sprintf(", with nothing open behind %s", plural(idle, "it", "them"))
	default:
		text += fmt.Sprintf(", at least %s of them with nothing open", number(idle))
	}
	if st.OperatorHolds > 0 {
		text += fmt.Sprintf("; %s held by operators", number(st.OperatorHolds))
	}
	return text
}

// riskText is how much money waits, and for how long; nothing if nothing does.
func riskText(st *api.Status) (text []byte) {
	for _, t := range [][]byte{atRiskText(st), agesText(st)} {
		if len(t) > 0 {
			text = append(append(text, t...), '\n')
		}
	}
	return text
}

// atRiskText is how much money waits; nothing if none does.
func atRiskText(st *api.Status) []byte {
	rows := [][]string{{"AT RISK", "OPEN", "OF IT HELD", "DEAD"}}
	for _, r := range st.AtRisk {
		rows = append(rows, []string{r.Currency, r.Open, r.Held, r.Dead})
	}
	if len(rows) == 1 {
		return nil
	}
	return table(rows)
}

// agesText is how old what is open and dead is; nothing if nothing is.
func agesText(st *api.Status) []byte {
	rows := [][]string{{"AGE", "UNDER 24 H", "1-3 DAYS", "3-7 DAYS", "OVER 7 DAYS"}}
	for _, a := range []struct {
		name string
		ages api.Ages
	}{{"open", st.Ages.Open}, {"dead letters", st.Ages.Dead}} {
		if a.ages != (api.Ages{}) {
			rows = append(rows, []string{a.name, number(a.ages.Under24h), number(a.ages.To3d), number(a.ages.To7d), number(a.ages.Over7d)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	return table(rows)
}

// routeRows say who works on each route that has anything to say.
func routeRows(st *api.Status) (rows [][]string) {
	for _, r := range st.Routes {
		switch {
		case r.InProcess:
		case r.Consumers == 0:
			rows = append(rows, []string{"route", string(r.Route) + " is for consumers: none is attached"})
		default:
			rows = append(rows, []string{"route", fmt.Sprintf("%s is for consumers: %s attached, room for %s more",
				r.Route, number(r.Consumers), number(r.Room))})
		}
	}
	for _, o := range st.Unavailable {
		rows = append(rows, []string{"route", outageText(&o, st.Now.Time)})
	}
	return rows
}

// recentText is what happened lately.
func recentText(r *api.Recent) string {
	if r == nil {
		return "it has just begun"
	}
	return fmt.Sprintf("%s stored (%s), %s done (%s), %s discarded in %d s", number(r.Stored), rate(r.Stored, r.Seconds),
		number(r.Done), rate(r.Done, r.Seconds), number(r.Discarded), r.Seconds)
}

// rate is how many a second there are, with one digit after the point while it says
// something. Few are not none.
func rate(n, seconds int64) string {
	tenths := 10 * n / max(seconds, 1)
	if tenths == 0 && n > 0 {
		return "<0.1/s"
	}
	if tenths >= 1000 || tenths%10 == 0 {
		return number(tenths/10) + "/s"
	}
	return fmt.Sprintf("%d.%d/s", tenths/10, tenths%10)
}

// trailText says how long the trail is, where it begins and where it ends.
func trailText(a *api.Audit) string {
	begins := ""
	if a.FirstRecord > 1 {
		begins = fmt.Sprintf(", kept from record %d on", a.FirstRecord)
	}
	return fmt.Sprintf("%s %s%s, head %d:%s", number(a.Records), plural(a.Records, "record", "records"), begins, a.Block, a.Head)
}

// archivedText says how far the trail is in an archive.
func archivedText(a *api.Archived) string {
	if a == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %s, up to block %d, %s", number(a.Records), plural(a.Records, "record", "records"), a.Block, moment(a.At))
}

// oldestText is the oldest claimable exception of each route.
func oldestText(oldest []api.Oldest) []byte {
	if len(oldest) == 0 {
		return []byte("nothing is claimable\n")
	}
	rows := [][]string{{"OLDEST", "AGE", "SEQ", "PARTITION KEY", "TRACE ID", "ACCEPTED"}}
	for _, o := range oldest {
		rows = append(rows, []string{
			o.Route, api.LengthText(time.Duration(o.AgeMS) * time.Millisecond), fmt.Sprint(o.Seq),
			short(o.PartitionKey, 32), short(o.TraceID, 40), moment(o.AcceptedAt),
		})
	}
	return table(rows)
}

// intakeText says what new lines meet.
func intakeText(in *api.Intake) string {
	switch in.Intake {
	case api.IntakeWaiting:
		return fmt.Sprintf("waits: %s (%s %s)", in.Saturated, number(in.Waiting), plural(in.Waiting, "producer", "producers"))
	case api.IntakeFull:
		return "full: " + in.Saturated + " is reached"
	}
	return in.Intake
}

// outageText says which handler is down, since when, when it is tried again and why.
func outageText(o *api.Outage, now time.Time) string {
	next := "at the next exception"
	if wait := o.Next.Sub(now); wait > 0 {
		next = "in " + api.LengthText(wait)
	}
	text := fmt.Sprintf("%s handler unavailable since %s, next try %s", o.Route, moment(o.Since), next)
	if o.Reason != "" {
		text += ": " + short(o.Reason, 120)
	}
	return text
}

// checkpointText says how far the trail is signed, and what keeps it from being so.
func checkpointText(c *api.Checkpoint) string {
	text := "none yet"
	if c.N > 0 {
		text = fmt.Sprintf("record %s, signed %s by %s", number(c.N), moment(c.At), c.Key)
	}
	if !c.FailingSince.IsZero() {
		text += fmt.Sprintf("; FAILING since %s: %s", moment(c.FailingSince), short(c.Error, 120))
	}
	return text
}

// pauseText says who paused, since when and why.
func pauseText(p *api.Pause) string {
	text := "since " + moment(p.Since)
	if p.By != "" {
		text = "by " + p.By + " " + text
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
