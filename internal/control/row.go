package control

import (
	"unicode/utf8"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// rowOf is an exception as the API shows it.
func rowOf(x *queue.Exception) api.Exception {
	row := api.Exception{
		Seq: x.Seq, State: x.State.String(), Code: string(x.Code), Field: x.Field, Reason: x.Reason, Of: x.Of,
		Route: string(x.Route), IdempotencyKey: x.IdempotencyKey, TraceID: x.TraceID, PartitionKey: x.PartitionKey,
		LedgerEntity: x.LedgerEntity, MatchDecision: string(x.Decision), VarianceAmount: x.Amount, Currency: x.Currency,
		SourceHash: hashText(x.SourceHash), AcceptedAt: api.Time{Time: x.AcceptedAt}, NotBefore: api.Time{Time: x.NotBefore},
		Deliveries: x.Deliveries, FailedAttempts: x.FailedAttempts, Unanswered: x.Unanswered,
		Owner: x.Owner, Deadline: api.Time{Time: x.Deadline}, DueAt: api.Time{Time: x.DueAt}, HeldBy: x.HeldBy,
		Outcome: x.Outcome, SettledAt: api.Time{Time: x.SettledAt}, DeadAt: api.Time{Time: x.DeadAt},
		LineBytes: x.LineBytes, LineSHA256: hashText(x.LineHash), EditedSHA256: hashText(x.EditedHash), Deaths: x.Deaths,
	}
	if !x.Place.IsZero() {
		row.Place = x.Place.String()
	}
	if knowsPriority(x) {
		row.Priority = &x.Priority
	}
	sent := x.Line
	if x.EditedHash != (queue.Hash{}) {
		sent, row.EditedLine = x.Sent, string(x.Line) // the gates have seen that it is UTF-8
	}
	if utf8.Valid(sent) {
		row.Line = string(sent)
	} else {
		row.LineBase64 = sent
	}
	return row
}

// knowsPriority reports whether the priority of an exception is known. What is derived
// from the trail has none, and none was read of a line that is too long, is no JSON, or
// has another priority than there is, unless it was edited.
func knowsPriority(x *queue.Exception) bool {
	switch {
	case x.State == queue.Done || x.State == queue.Discarded:
		return false
	case x.Code != queue.CodePoison || x.EditedHash != (queue.Hash{}):
		return true
	}
	return x.Field != "" && x.Field != "priority"
}

// hashText is a digest in hexadecimal; "" for none.
func hashText(h queue.Hash) string {
	if h == (queue.Hash{}) {
		return ""
	}
	return h.String()
}

// pauseOf is a pause as the API shows it; nil for none.
func pauseOf(p *queue.Pause) *api.Pause {
	if p == nil {
		return nil
	}
	return &api.Pause{By: p.By, Since: api.Time{Time: p.Since}, Reason: p.Reason}
}

// resultsOf are the results of an operator's list, and how many of them failed.
func resultsOf(all []queue.ActionResult) (rows []api.Result, failed int) {
	rows = make([]api.Result, len(all))
	for i, r := range all {
		rows[i] = api.Result{Seq: r.Seq, Key: r.Key, Code: string(r.Code), Error: r.Error, Wait: waitOf(r.Wait), Letter: r.Letter}
		if r.Code != "" {
			failed++
		}
	}
	return rows, failed
}
