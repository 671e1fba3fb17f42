package cli

import (
	"fmt"
	"slices"
)

// refusals are the elements of a list of which a command could not do what was asked for.
// They go to stderr, each with its code, and below them what can be done, once for each
// kind; what was done is on stdout. With --json all of it is in the document.
type refusals struct {
	*env
	text  []byte
	hints []string
}

func (e *env) refusals() *refusals { return &refusals{env: e} }

// add takes one in: what was refused and why, and what can be done; "" for no more than
// others have said.
func (r *refusals) add(what, hint string) {
	r.text = fmt.Appendf(r.text, "breakwater: %s\n", oneLine(what))
	r.also(hint)
}

// also takes in what can be done about what was not refused.
func (r *refusals) also(hint string) {
	if hint != "" && !slices.Contains(r.hints, hint) {
		r.hints = append(r.hints, hint)
	}
}

// flush prints those that were taken in, and keeps their hints for the end.
func (r *refusals) flush() {
	_ = write(r.Stderr, r.text) // there is nowhere else to say it, and the status does
	r.text = r.text[:0]
}

// print prints them, and what can be done.
func (r *refusals) print() {
	for _, hint := range r.hints {
		r.text = fmt.Appendf(r.text, "hint: %s\n", oneLine(r.aim.at(hint)))
	}
	r.hints = nil
	r.flush()
}
