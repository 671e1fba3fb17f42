package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// codeNotFound is the code of a seq that is no dead letter.
const codeNotFound = string(queue.CodeNotFound)

// errTooManyStopped: a run cannot remember more keys.
var errTooManyStopped = fmt.Errorf("more than %s partition keys have a letter that was refused", number(maxStopped))

// errInterrupted: a signal has stopped a run.
var errInterrupted = errors.New("interrupted")

// maxItems bounds the items of an outcome.
const maxItems = 10_000

// outcome is what became of the dead letters that were dealt with. Items are those
// that were not done, and with DryRun all.
type outcome struct {
	Matched   int  `json:"matched"`
	Replayed  *int `json:"replayed,omitempty"`
	Discarded *int `json:"discarded,omitempty"`
	Failed    int  `json:"failed"`
	Skipped   int  `json:"skipped"`
	DryRun    bool `json:"dry_run,omitempty"`

	Interrupted bool `json:"interrupted,omitempty"` // it stopped before the end
	Left        *int `json:"left,omitempty"`        // how many of the selected it did not come to
	Unanswered  int  `json:"unanswered,omitempty"`  // letters of the request that was not answered: all are done, or none

	Items     []api.Result `json:"items"`
	MoreItems int          `json:"more_items,omitempty"` // that are not listed
}

// add adds what one request did.
func (o *outcome) add(l *api.Letters) {
	o.Matched += l.Matched
	o.Failed += l.Failed
	o.Skipped += l.Skipped
	o.list(l.Items)
}

// list keeps the results that a person wants to see, up to a limit.
func (o *outcome) list(items []api.Result) {
	for _, r := range items {
		switch {
		case r.Code == "" && !o.DryRun:
		case len(o.Items) == maxItems:
			o.MoreItems++
		default:
			o.Items = append(o.Items, r)
		}
	}
}

// count is what the verb has counted.
func (o *outcome) count() int {
	for _, n := range []*int{o.Replayed, o.Discarded} {
		if n != nil {
			return *n
		}
	}
	return 0
}

// inTurn sorts the results of a dry run as they would be dealt with.
func inTurn(items []api.Result) {
	rank := func(r *api.Result) queue.Place {
		if p, ok := queue.ParsePlace(r.Place); ok {
			return p
		}
		return queue.Place{Seq: r.Seq}
	}
	slices.SortStableFunc(items, func(a, b api.Result) int {
		return cmp.Or(rank(&a).Compare(rank(&b)), cmp.Compare(a.Seq, b.Seq))
	})
}

// tell shows the results that a person wants to see as they come. If nobody reads any
// more the run goes on: who asked for it gets all of it, or a status that says no.
func (r *dealing) tell(items []api.Result) {
	if r.c.Bool("json") {
		return
	}
	var text []byte
	for _, x := range items {
		line := r.lineOf(&x)
		switch {
		case line == "":
		case x.Code != "" && !r.DryRun:
			r.no.add(line, r.hintOf(&x))
		default:
			text = append(append(text, line...), '\n')
			r.no.also(r.hintOf(&x))
		}
	}
	r.no.flush()
	if len(text) > 0 {
		_ = write(r.Stdout, text) // the summary will fail in the same way, and say so
	}
}

// lineOf says what became, or would become, of one letter; "" for what was done.
func (r *dealing) lineOf(x *api.Result) string {
	switch {
	case x.Behind != 0:
		return fmt.Sprintf("seq %d: skipped: %s", x.Seq, oneLine(x.Error))
	case x.Code != "":
		return fmt.Sprintf("seq %d: %s", x.Seq, oneLine(x.Code+": "+x.Error))
	case !r.DryRun:
		return ""
	}
	line := fmt.Sprintf("seq %d would be %s", x.Seq, r.done)
	if x.Place != "" {
		line += " at place " + x.Place
	}
	if x.Waits != "" {
		line += ", and wait: " + oneLine(x.Waits)
	}
	return line
}

// hintOf is what can be done about a letter that was refused: one hint for each kind, by
// the first of them.
func (r *dealing) hintOf(x *api.Result) string {
	code := queue.Code(x.Code)
	if code == "" || x.Behind != 0 || r.hinted[code] {
		return ""
	}
	if r.hinted == nil {
		r.hinted = map[queue.Code]bool{}
	}
	r.hinted[code] = true
	switch code {
	case queue.CodeNotFound:
		return fmt.Sprintf("breakwater show %d shows it whatever its state", x.Seq)
	case queue.CodePoison, queue.CodeConflict:
		return fmt.Sprintf("breakwater dlq edit %d corrects it, then breakwater dlq replay %d; or breakwater dlq discard %d --reason WHY", x.Seq, x.Seq, x.Seq)
	}
	return fmt.Sprintf("breakwater dlq show %d says more; breakwater dlq discard %d --reason WHY ends it", x.Seq, x.Seq)
}

// finish prints what was done and what is left, and decides the exit status.
func (r *dealing) finish(err error) error {
	if err != nil {
		r.Interrupted = true
		if r.Matched+r.Failed+r.Unanswered == 0 {
			return err // nothing was begun
		}
	}
	printed := r.print()
	r.no.print()
	switch {
	case err != nil:
		return err
	case r.Interrupted:
		return &failure{status: exitFailed, err: errInterrupted, hint: "the same command goes on with what is left"}
	case r.Failed+r.Skipped > 0:
		return quiet(exitFailed)
	}
	return printed
}

// print prints the summary.
func (r *dealing) print() error {
	if r.c.Bool("json") {
		return r.printJSON(r.outcome)
	}
	var text []byte
	if r.DryRun {
		text = fmt.Appendf(text, "%s matched; nothing was changed\n", number(r.Matched))
	} else {
		text = fmt.Appendf(text, "%s matched, %s %s, %s refused", number(r.Matched), number(r.count()), r.done, number(r.Failed))
		if r.Skipped > 0 {
			text = fmt.Appendf(text, ", %s skipped", number(r.Skipped))
		}
		text = append(text, '\n')
	}
	if r.Unanswered > 0 {
		text = fmt.Appendf(text, "the last request was not answered: of its %s all were %s, or none\n", number(r.Unanswered), r.done)
	}
	if r.Left != nil {
		text = fmt.Appendf(text, "%s left\n", number(*r.Left))
	}
	return write(r.Stdout, text)
}
