package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

// actFlags are those of replay and discard besides their own.
func actFlags() []ucli.Flag {
	return append(letterFlags(),
		&ucli.BoolFlag{Name: "dry-run", Usage: "change nothing, say what would be done"},
		&ucli.StringFlag{Name: "rate", Usage: "at most so many a second, as `N/s`; default as many as there are"},
		byFlag())
}

// statusesOfAct are the exit statuses of replay and discard.
var statusesOfAct = []string{
	"0  all that were selected are done (or would be); also if none are",
	"1  a seq is not a dead letter or was refused, it was interrupted, or it failed", status2,
}

func (e *env) replayCommand() *ucli.Command {
	return &ucli.Command{
		Name: "replay", Usage: "put dead letters back", ArgsUsage: "[SEQ…]",
		Description: manual(`
Puts dead letters back: an exception to its own place in the order of its key, with
its counters at zero and its history kept; a line that a gate refused goes through
the gates again and keeps its seq. A line in conflict is refused until it is edited to
an idempotency key of its own ("breakwater dlq edit"). Which ones is said by SEQ…, or by
flags, all of which must hold. They are taken in the order of their places, in
transactions of at most 1,000. When one of a partition key is refused, later ones of that
key are skipped: they would overtake it.

--dry-run changes nothing and says, in that order, what would go back and where, what it
would wait for there, what would be refused and why, and what would be skipped.

Ctrl-C stops between two transactions; the summary says what was done and what is left,
and the same command goes on with it. A second Ctrl-C does not wait. Where a transaction
was not answered it was done as a whole or not at all.

With --json one document: how many matched, were put back, refused ("failed") and
skipped, and in "items" those that were not put back (with --dry-run: all that would
be), at most 10,000 of them. A run that stopped early has "interrupted" and, as far as it
is known, how many are "left".`,
			statusesOfAct,
			"breakwater dlq replay 42 43", "breakwater dlq replay --code ATTEMPTS_EXHAUSTED --dry-run",
			"breakwater dlq replay --all --rate 50/s --json"),
		Flags: append(actFlags(), &ucli.StringFlag{Name: "reason", Usage: "record `WHY`"}),
		Action: func(c *ucli.Context) error {
			o := outcome{Replayed: new(int)}
			return e.deal(c, "put back", o, func(ctx context.Context, control *client.Control, a api.LettersAct, o *outcome) (api.Letters, error) {
				r, err := control.Replay(ctx, a)
				*o.Replayed += r.Replayed
				return r.Letters, err
			})
		},
	}
}

func (e *env) discardCommand() *ucli.Command {
	return &ucli.Command{
		Name: "discard", Usage: "end dead letters for good", ArgsUsage: "[SEQ…]",
		Description: manual(`
Ends dead letters without an outcome. That, the reason and who did it are recorded;
the line that was sent is not kept ("breakwater dlq export" keeps it). It cannot be
undone. A key that waited behind a dead letter goes on. The idempotency key stays known,
so that the same line sent again is a duplicate; --forget frees it for a corrected one.

Which ones is said by SEQ…, or by flags, all of which must hold. --dry-run, --json,
Ctrl-C and a second run are as those of "breakwater dlq replay".`,
			statusesOfAct,
			"breakwater dlq discard 42 --reason \"booked by hand\"",
			"breakwater dlq discard --code POISON_MESSAGE --older-than 7d --reason \"test lines\" --dry-run",
			"breakwater dlq discard 42 --forget --reason \"sent again as corrected\""),
		Flags: append(actFlags(),
			&ucli.StringFlag{Name: "reason", Usage: "record `WHY`; required"},
			&ucli.BoolFlag{Name: "forget", Usage: "free the idempotency keys"}),
		Action: func(c *ucli.Context) error {
			if c.String("reason") == "" {
				return usageFor(c, "--reason is missing: it is recorded with each")
			}
			o := outcome{Discarded: new(int)}
			return e.deal(c, "discarded", o, func(ctx context.Context, control *client.Control, a api.LettersAct, o *outcome) (api.Letters, error) {
				a.Forget = c.Bool("forget")
				r, err := control.Discard(ctx, a)
				*o.Discarded += r.Discarded
				return r.Letters, err
			})
		},
	}
}

// lettersVerb applies a verb to at most api.MaxLimit dead letters and counts what it
// did.
type lettersVerb func(context.Context, *client.Control, api.LettersAct, *outcome) (api.Letters, error)

// deal applies a verb to the dead letters that the command line selects, page by page.
// o has the count of this verb, so that it is there also when nothing was selected.
func (e *env) deal(c *ucli.Context, done string, o outcome, verb lettersVerb) error {
	s, err := selectionOf(c)
	if err != nil {
		return err
	}
	if len(s.seqs) == 0 && !s.byFlags {
		return usageFor(c, "say which: SEQ…, --all, --code, --key or --older-than")
	}
	p, err := paceOf(c)
	if err != nil {
		return err
	}
	o.DryRun, o.Items = c.Bool("dry-run"), []api.Result{}
	r := dealing{env: e, c: c, outcome: &o, done: done, verb: verb, pace: p, stopped: map[string]api.Result{}, no: e.refusals(),
		act: api.LettersAct{By: e.by(c), Reason: c.String("reason"), DryRun: o.DryRun}}
	return e.steer(c, func(control *client.Control) error {
		r.control = control
		if len(s.seqs) > 0 {
			return r.finish(r.bySeq(s.seqs))
		}
		return r.finish(r.bySelection(s.letters))
	})
}

// maxStopped bounds how many partition keys a run remembers as stopped.
const maxStopped = 100_000

// dealing is one run of replay or discard. What it holds does not depend on how many
// letters there are.
type dealing struct {
	*env
	c       *ucli.Context
	control *client.Control
	act     api.LettersAct
	verb    lettersVerb
	done    string // what the verb does, in the past
	pace    pace
	*outcome

	stopped map[string]api.Result // by partition key: the letter of it that was refused
	batch   []api.Exception
	last    string // the place that the run has come to
	no      *refusals
	hinted  map[queue.Code]bool // kinds of refusals that have their hint
}

// bySeq deals with the letters that were named, in one transaction.
func (r *dealing) bySeq(seqs []uint64) error {
	r.act.Seqs = seqs
	l, err := r.request()
	if err != nil {
		return err
	}
	if r.DryRun {
		inTurn(l.Items)
	}
	r.add(&l)
	r.tell(l.Items)
	return nil
}

// bySelection walks over what the flags select, in the order of places: a letter that
// dies again meanwhile is not met twice. Between two transactions it may be stopped.
func (r *dealing) bySelection(l client.Letters) error {
	for x, err := range r.control.DeadLetters(r.c.Context, l) {
		if err != nil && r.c.Context.Err() == nil {
			return err
		}
		if err == nil {
			if r.batch = append(r.batch, x); len(r.batch) < r.pace.batch() {
				continue
			}
			if err := r.flush(); err != nil {
				return err
			}
			r.pace.wait(r.c.Context)
		}
		if r.c.Context.Err() != nil {
			return r.interrupted(l)
		}
	}
	return r.flush()
}

// interrupted says how many letters the run has not come to.
func (r *dealing) interrupted(l client.Letters) error {
	r.Interrupted = true
	l.After = r.last
	g, err := r.control.LetterGroups(r.hurry, l)
	if err == nil {
		r.Left = &g.Total
	}
	return err
}

// request applies the verb to the letters in act. It is not given up when the run is
// to stop, only for a second signal: else nobody would know what it did.
func (r *dealing) request() (api.Letters, error) {
	l, err := r.verb(r.hurry, r.control, r.act, r.outcome)
	var p *client.Problem
	if err != nil && !errors.As(err, &p) && !errors.Is(err, client.ErrNobody) {
		r.Unanswered = len(r.act.Seqs)
	}
	return l, err
}

// flush deals with the letters of a batch.
func (r *dealing) flush() error {
	r.act.Seqs = r.act.Seqs[:0]
	var behind []api.Result
	keys := map[uint64]string{}
	for i := range r.batch {
		x := &r.batch[i]
		if first, ok := r.stopped[x.PartitionKey]; ok {
			behind = append(behind, api.Result{Seq: x.Seq, Code: first.Code, Behind: first.Seq,
				Error: fmt.Sprintf("seq %d of its key comes first and was refused", first.Seq)})
			continue
		}
		r.act.Seqs = append(r.act.Seqs, x.Seq)
		keys[x.Seq] = x.PartitionKey
		r.last = rankOf(x)
	}
	r.batch = r.batch[:0]
	var l api.Letters
	if len(r.act.Seqs) > 0 {
		var err error
		if l, err = r.request(); err != nil {
			return err
		}
	}
	r.pace.did(len(r.act.Seqs))
	l.Items = append(r.present(l.Items, &l), behind...)
	l.Matched += len(behind)
	l.Skipped += len(behind)
	r.add(&l)
	r.tell(l.Items)
	return r.stop(l.Items, keys)
}

// present leaves out what was no dead letter any more when its turn came: somebody else
// has dealt with it since it was listed.
func (r *dealing) present(items []api.Result, l *api.Letters) []api.Result {
	kept := items[:0]
	for _, x := range items {
		if x.Code == codeNotFound {
			l.Failed--
			continue
		}
		kept = append(kept, x)
	}
	return kept
}

// stop remembers the partition keys of which a letter was refused: what comes later of
// them would overtake it. A discard overtakes nobody.
func (r *dealing) stop(items []api.Result, keys map[uint64]string) error {
	for _, x := range items {
		if key := keys[x.Seq]; x.Code != "" && x.Behind == 0 && key != "" && r.Replayed != nil {
			r.stopped[key] = x
		}
	}
	if len(r.stopped) > maxStopped {
		return &failure{status: exitFailed, err: errTooManyStopped,
			hint: `see the reasons with "breakwater dlq list --group", and select fewer with --code or --key`}
	}
	return nil
}

// rankOf is where a letter stands in the order of replays, as the server reads it.
func rankOf(x *api.Exception) string {
	if x.Place != "" {
		return x.Place
	}
	return strconv.FormatUint(x.Seq, 10)
}

// pace spreads a run over time.
type pace struct {
	perSecond int // 0: as fast as it goes
	dealt     int
	began     time.Time
}

// maxRate bounds --rate; who wants more leaves it out.
const maxRate = 100_000

// paceOf reads --rate: N/s, or N alone.
func paceOf(c *ucli.Context) (p pace, err error) {
	p.began = time.Now()
	if !c.IsSet("rate") {
		return p, nil
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(c.String("rate"), "/s"), 10, 32)
	if err != nil || n == 0 || n > maxRate {
		return p, usageFor(c, "--rate %q is not a number a second, like 50/s; at most %s/s", c.String("rate"), number(maxRate))
	}
	if p.perSecond = int(n); c.Bool("dry-run") {
		p.perSecond = 0 // nobody has to be spared
	}
	return p, nil
}

// batch is how many letters go into one transaction: a quarter of a second's, so that
// the handlers get a stream and a stop need not be waited for.
func (p *pace) batch() int {
	if p.perSecond == 0 {
		return api.MaxLimit
	}
	return min(max(p.perSecond/4, 1), api.MaxLimit)
}

// did counts what was dealt with.
func (p *pace) did(n int) { p.dealt += n }

// due is how long after its beginning a run may go on.
func (p *pace) due() time.Duration {
	if p.perSecond == 0 {
		return 0
	}
	return time.Duration(p.dealt) * time.Second / time.Duration(p.perSecond)
}

// wait waits until the run may go on, or is stopped.
func (p *pace) wait(ctx context.Context) {
	t := time.NewTimer(time.Until(p.began.Add(p.due())))
	defer t.Stop()
	if p.due() > 0 {
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}
