package control

import (
	"context"
	"encoding/hex"
	"net/http"
	"slices"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// replay puts dead letters back at their places.
func (s *Server) replay(x *exchange) error {
	done, doc, err := s.letters(x, s.o.Store.Replay, func(in *api.LettersAct) error {
		if in.Forget {
			return usage("forget is for discard")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return x.ok(api.Replayed{Replayed: done, Letters: doc})
}

// discard ends them. It cannot be undone, so it says why.
func (s *Server) discard(x *exchange) error {
	done, doc, err := s.letters(x, s.o.Store.Discard, func(in *api.LettersAct) error {
		if in.Reason == "" {
			return usage("discard needs a reason")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return x.ok(api.Discarded{Discarded: done, Letters: doc})
}

type lettersVerb func(context.Context, queue.Action, []uint64) ([]queue.ActionResult, error)

// letters applies a verb to a list of dead letters, or rehearses that.
func (s *Server) letters(x *exchange, verb lettersVerb, check func(*api.LettersAct) error) (done int, doc api.Letters, err error) {
	var in api.LettersAct
	if err := x.body(&in); err != nil {
		return 0, doc, err
	}
	if len(in.Seqs) == 0 || len(in.Seqs) > api.MaxLimit {
		return 0, doc, usage("seqs must list 1 to %d dead letters", api.MaxLimit)
	}
	if slices.Contains(in.Seqs, 0) {
		return 0, doc, usage("seqs has a 0: a seq is a number from 1")
	}
	if err := check(&in); err != nil {
		return 0, doc, err
	}
	a, err := x.action(s.o.Now(), in.By, in.Reason)
	if err != nil {
		return 0, doc, err
	}
	a.Forget, a.DryRun = in.Forget, in.DryRun
	results, err := verb(x.r.Context(), a, in.Seqs)
	if err != nil {
		return 0, doc, err
	}
	doc.DryRun = in.DryRun
	doc.Items, doc.Failed = resultsOf(results)
	for i, r := range results {
		row := &doc.Items[i]
		if row.Waits, row.Behind = r.Waits, r.Behind; !r.Place.IsZero() {
			row.Place = r.Place.String()
		}
		if r.Behind != 0 {
			doc.Skipped++
			doc.Failed--
		}
		if r.Code != queue.CodeNotFound {
			doc.Matched++
		}
	}
	if !in.DryRun {
		done = len(results) - doc.Failed - doc.Skipped
		s.tell(x, &a, "matched", doc.Matched, "done", done)
	}
	return done, doc, nil
}

// edit gives one dead letter other content. What it names as the content that was
// edited must still be there (as If-Match would have it): nobody undoes what he has not
// seen.
func (s *Server) edit(x *exchange) error {
	var in api.EditAct
	if err := x.body(&in); err != nil {
		return err
	}
	e := queue.Edit{Seq: in.Seq, Line: []byte(in.Line)}
	was, err := hex.DecodeString(in.Was)
	switch {
	case in.Seq == 0 || in.Line == "":
		return usage("seq and line must be given")
	case err != nil || copy(e.Was[:], was) != len(e.Was) || len(was) != len(e.Was):
		return usage("was must be the SHA-256 of the line that was edited: edited_sha256 of the letter, else line_sha256")
	case len(in.Line) > api.MaxEdit:
		return usage("a line of more than %d bytes cannot be edited: discard it with forget, and have it sent again", api.MaxEdit)
	}
	a, err := x.action(s.o.Now(), in.By, in.Reason)
	if err != nil {
		return err
	}
	a.DryRun = in.DryRun
	results, err := s.o.Store.Edit(x.r.Context(), a, []queue.Edit{e})
	if err != nil {
		return err
	}
	r := &results[0]
	if r.Code != "" {
		return editProblem(r, e.Was)
	}
	if !in.DryRun {
		s.tell(x, &a, "seq", r.Seq, "line_sha256", r.After.LineHash.String())
	}
	return x.ok(api.Edited{Seq: r.Seq, DryRun: in.DryRun, Before: contentOf(r.Before), After: contentOf(r.After)})
}

// contentOf is a content as the API shows it.
func contentOf(c queue.Content) api.Content {
	return api.Content{SourceHash: hashText(c.SourceHash), LineSHA256: c.LineHash.String(), LineBytes: c.LineBytes}
}

// editProblem is the answer for an edit that was refused.
func editProblem(r *queue.EditResult, was queue.Hash) *problem {
	p := &problem{status: http.StatusUnprocessableEntity, code: r.Code, field: r.Field, detail: r.Error}
	if r.Field != "" {
		p.detail = r.Field + " " + r.Error
	}
	switch {
	case r.Code == queue.CodeNotFound:
		return notDead(r.Seq)
	case r.Stale(was):
		p.status, p.hint = http.StatusPreconditionFailed, "look at it again, then edit what it is now"
	case r.Code == queue.CodeConflict:
		p.status = http.StatusConflict
	}
	return p
}
