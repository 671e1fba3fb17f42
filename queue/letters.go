package queue

import "time"

// LetterQuery selects dead letters. Zero members select everything.
type LetterQuery struct {
	After        Place // only letters whose rank comes after it
	Limit        int   // at most so many
	Seq          uint64
	Code         Code
	PartitionKey string
	DeadBefore   time.Time
	NoLines      bool // leave the lines out
}

// LetterPage is a part of a list of dead letters, in the order of their ranks.
type LetterPage struct {
	Letters []Exception
	Next    Place // the After of the page that follows; zero: this was the last
}

// Rank is where a dead letter stands in the order of replays: at its place, or, if it
// never had one, at the one that its seq would give it.
func (x *Exception) Rank() Place {
	if x.Place.IsZero() {
		return Place{Seq: x.Seq}
	}
	return x.Place
}

// Matches reports whether the query selects a letter, wherever the page begins.
func (q *LetterQuery) Matches(x *Exception) bool {
	return (q.Seq == 0 || x.Seq == q.Seq) &&
		(q.Code == "" || x.Code == q.Code) &&
		(q.PartitionKey == "" || x.PartitionKey == q.PartitionKey) &&
		(q.DeadBefore.IsZero() || x.DeadAt.Before(q.DeadBefore))
}

// Admissible judges by all that does not need a store whether a letter that never was
// in the order may enter it now. A refusal is in r; the message is what its line says.
func (l *Letter) Admissible(r *ActionResult) Message {
	if l.Code == CodeConflict && !l.Edited {
		r.Code, r.Error = CodeConflict, "its idempotency key is another message's: edit it to a key of its own first"
		return Message{}
	}
	if !l.Edited && l.Content.LineBytes > int64(len(l.Line)) {
		r.Code, r.Error = CodeUsage, "only the first bytes of its line are kept: edit it first"
		return Message{}
	}
	m, err := ParseLine(l.Line)
	if err != nil {
		r.Code, r.Error = CodePoison, err.Error()
	}
	return m
}

// Stops makes r the result of a letter that is not put back because an earlier one of
// its key was refused, with that one's code.
func (r *ActionResult) Stops(first *ActionResult) {
	r.Code, r.Behind = first.Code, first.Seq
	r.Error = "seq " + Place{Seq: first.Seq}.String() + " of its key comes first and was refused"
}

// What a replayed message would wait for, where no number belongs to it.
const (
	WaitsPaused   = "claims are paused"
	WaitsOperator = "an operator holds its key"
)
