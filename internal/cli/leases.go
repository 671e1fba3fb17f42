package cli

import (
	"fmt"
	"slices"
	"strconv"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) leasesCommand() *ucli.Command {
	return &ucli.Command{
		Name: "leases", Usage: "list who holds what, and take it back from a consumer",
		Subcommands: []*ucli.Command{e.leasesListCommand(), e.revokeCommand()},
	}
}

func ownerFlag(usage string) ucli.Flag { return &ucli.StringFlag{Name: "owner", Usage: usage} }

func (e *env) leasesListCommand() *ucli.Command {
	return &ucli.Command{
		Name: "list", Usage: "list what is handed out and not answered",
		Description: manual(`
Lists the exceptions that a worker of breakwater or an attached consumer has and has
not answered, by seq: since when its lease runs (it was given, extended, or begun anew
by a start) and until when. After the deadline an exception goes to another. A lease
of a worker is renewed as long as its handler runs. The last line names the question
about the one that has run longest. A copy shows the leases of the
moment at which it was made.`,
			[]string{"0  done, also if there are none", status1, status2},
			"breakwater leases list", "breakwater leases list --owner review-ui-1",
			"breakwater leases list --json --file copy.db | jq -r .owner | sort | uniq -c"),
		Flags: []ucli.Flag{fileFlag(), ownerFlag("what this worker or consumer, by `NAME`, has")},
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			return e.ask(c, func(control *client.Control) error { return e.leasesList(c, control) })
		},
	}
}

func (e *env) leasesList(c *ucli.Context, control *client.Control) error {
	rows := e.listing("SEQ", "OWNER", "KIND", "ROUTE", "DELIVERY", "SINCE", "DEADLINE", "PARTITION KEY")
	var oldest *api.Lease
	for l, err := range control.Leases(c.Context, c.String("owner")) {
		switch {
		case err != nil:
		case c.Bool("json"):
			err = e.printJSON(l)
		default:
			if oldest == nil || l.Since.Before(oldest.Since.Time) {
				oldest = &l
			}
			err = rows.add(
				strconv.FormatUint(l.Seq, 10), short(l.Owner, 32), l.Kind, l.Route, strconv.Itoa(l.Delivery),
				moment(l.Since), moment(l.Deadline), short(l.PartitionKey, 32))
		}
		if err != nil {
			return rows.cut(err)
		}
	}
	if c.Bool("json") {
		return nil
	}
	none := "no lease"
	if owner := c.String("owner"); owner != "" {
		none += " of " + owner
	}
	if err := rows.end(none); err != nil || oldest == nil {
		return err
	}
	return write(e.Stdout, []byte(nextText(e.aim.at("breakwater why "+strconv.FormatUint(oldest.Seq, 10)))))
}

func (e *env) revokeCommand() *ucli.Command {
	return &ucli.Command{
		Name: "revoke", Usage: "take exceptions back from a consumer", ArgsUsage: "[SEQ…]",
		Description: manual(`
Ends leases of consumers before their deadline: of a reviewer who is gone, or of a
program that hangs. Another consumer may have the exception at once; the one that had
it is not asked again before the deadline that it had. A late answer is refused,
LEASE_EXPIRED. It counts as a delivery, as if the lease had expired: after
queue.max_deliveries the exception is a dead letter.

Which ones is said by SEQ…, by --owner (all that this consumer has), or by both: SEQ…
as far as this consumer has them. With --owner nothing is taken from anybody else: a
lease that has ended meanwhile is refused, LEASE_EXPIRED, if another has the exception
now. What a worker of breakwater holds cannot be revoked: its handler runs, and would
go on beside the next one. It ends by itself, or by its time limit.`,
			[]string{"0  all are taken back; also if --owner has none", "1  a seq is not leased (any more), another or a worker has it, or it failed", status2},
			"breakwater leases revoke 42 --owner bob --reason \"on leave\"",
			"breakwater leases revoke --owner review-ui-1 --reason \"it hangs\""),
		Flags: []ucli.Flag{ownerFlag("only what the consumer `NAME` has"), reasonFlag(), byFlag()},
		Action: func(c *ucli.Context) error {
			seqs, err := seqArgs(c)
			switch {
			case err != nil:
				return err
			case len(seqs) == 0 && !c.IsSet("owner"):
				return usageFor(c, "say which: SEQ… or --owner")
			}
			return e.steer(c, func(control *client.Control) error { return e.revoke(c, control, seqs) })
		},
	}
}

// revocations are the requests that a command line means. Without seqs they name the
// leases that the owner has now, and no others: what is with somebody else by the time
// of the request stays there.
func (e *env) revocations(c *ucli.Context, control *client.Control, seqs []uint64) (acts []api.LeasesAct, err error) {
	act := api.LeasesAct{Owner: c.String("owner"), By: e.by(c), Reason: c.String("reason")}
	for some := range slices.Chunk(seqs, api.MaxLimit) {
		one := act
		one.Seqs = some
		acts = append(acts, one)
	}
	if len(seqs) > 0 {
		return acts, nil
	}
	var leases []api.LeaseRef
	for l, err := range control.Leases(c.Context, act.Owner) {
		if err != nil {
			return nil, err
		}
		if l.Kind == api.LeaseOfConsumer {
			leases = append(leases, api.LeaseRef{Seq: l.Seq, Fence: l.Fence})
		}
	}
	for some := range slices.Chunk(leases, api.MaxLimit) {
		one := act
		one.Leases = some
		acts = append(acts, one)
	}
	return acts, nil
}

// revoke takes leases back, a request at a time, and prints what became of each also
// when a later request fails.
func (e *env) revoke(c *ucli.Context, control *client.Control, seqs []uint64) error {
	acts, err := e.revocations(c, control, seqs)
	if err != nil {
		return err
	}
	all := api.Revoked{Items: []api.Revocation{}}
	var failed error
	for _, act := range acts {
		r, err := control.Revoke(c.Context, act)
		if failed = err; err != nil {
			break
		}
		all.Revoked, all.Failed, all.Items = all.Revoked+r.Revoked, all.Failed+r.Failed, append(all.Items, r.Items...)
	}
	if failed != nil && len(all.Items) == 0 {
		return failed
	}
	printed := e.printRevoked(c, &all)
	switch {
	case failed != nil:
		return failed
	case all.Failed > 0:
		return quiet(exitFailed)
	}
	return printed
}

func (e *env) printRevoked(c *ucli.Context, all *api.Revoked) error {
	if c.Bool("json") {
		return e.printJSON(all)
	}
	var text []byte
	no := e.refusals()
	for _, r := range all.Items {
		what := "taken back from " + r.Owner
		switch {
		case r.Code != "":
			no.add(fmt.Sprintf("seq %d: %s: %s", r.Seq, r.Code, r.Error), revokeHint(r.Code))
			continue
		case r.DeadCode != "":
			what += "; it was its last delivery, and it is a dead letter now: " + r.DeadCode
		}
		text = fmt.Appendf(text, "seq %d: %s\n", r.Seq, oneLine(what))
	}
	no.print()
	text = fmt.Appendf(text, "%s taken back, %s refused\n", number(all.Revoked), number(all.Failed))
	return write(e.Stdout, text)
}

// revokeHint is what can be done where a lease was not taken back.
func revokeHint(code string) string {
	if code == string(queue.CodeUsage) {
		return "a worker's lease ends with its handler, at timeout_ms at the latest; breakwater leases list says until when each runs"
	}
	return "breakwater leases list says who has what now"
}
