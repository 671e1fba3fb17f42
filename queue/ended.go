package queue

// MaxEnded is how many messages an [Ended] remembers at most: some hundred bytes each.
const MaxEnded = 4096

// Ended remembers who the messages were that have ended, so that an answer which comes
// too late is recorded with their names (P10): a store keeps nothing else of them but their
// records, and to look there would hold up its writer. It is as old as the process, and
// remembers of the seqs that are equal modulo MaxEnded the one that ended last, which
// are about the last MaxEnded in all. The zero value is ready for use; one goroutine at a
// time may use it.
type Ended struct{ of []Stored }

// Add remembers a message that is over, without its line.
func (e *Ended) Add(s *Stored) {
	if e.of == nil {
		e.of = make([]Stored, MaxEnded)
	}
	own := &e.of[s.Seq%MaxEnded]
	*own = *s
	own.Line = nil
}

// Find returns the message; false, and nothing but its seq, if it is not remembered.
func (e *Ended) Find(seq uint64) (Stored, bool) {
	if e.of != nil && seq != 0 && e.of[seq%MaxEnded].Seq == seq {
		return e.of[seq%MaxEnded], true
	}
	return Stored{Seq: seq}, false
}
