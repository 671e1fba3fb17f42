package queue

import "time"

// This file reads the lines that AppendNDJSON writes nearly always: known members,
// plain ASCII, no white space. A verification reads every record of a trail, tens
// of millions of them; the strict decoder takes four times as long. The scanner
// never refuses a line: what it is not sure of, it leaves to the strict decoder,
// and a fuzz target holds the two against each other. To the reader of a trail
// there is one parser.

// recordScanner is a line and how far it has been read. ok turns false, and stays
// so, at the first thing that is not as expected.
type recordScanner struct {
	line []byte
	at   int
	ok   bool
	seen uint32 // members so far, by bit: none may come twice
}

// scanRecord returns the record of a line in the usual form; ok is false when the
// strict decoder has to say what the line is.
func scanRecord(line []byte) (r Record, ok bool) {
	s := recordScanner{line: line, ok: true}
	s.expect("{")
	for s.ok {
		s.member(&r)
		if s.at >= len(line) || line[s.at] != ',' {
			break
		}
		s.at++
	}
	s.expect("}")
	if s.ok && s.at < len(line) {
		s.expect("\n")
	}
	return r, s.ok && s.at == len(line) && r.N != 0 && r.Event != "" && s.seen&(1<<1) != 0
}

// member reads one name and its value. The bits are in the order of a line; ts is
// number 1.
func (s *recordScanner) member(r *Record) {
	name := s.quoted()
	s.expect(":")
	switch string(name) {
	case "n":
		s.once(0)
		r.N = s.number()
	case "ts":
		s.once(1)
		r.TS = s.time()
	case "event":
		s.once(2)
		r.Event = Event(s.word())
	case "seq":
		s.once(3)
		r.Seq = s.number()
	case "trace_id":
		s.once(4)
		r.TraceID = s.text()
	case "source_hash":
		s.once(5)
		s.hash(&r.SourceHash)
	case "match_decision":
		s.once(6)
		r.MatchDecision = MatchDecision(s.word())
	case "partition_key":
		s.once(7)
		r.PartitionKey = s.text()
	case "variance_amount":
		s.once(8)
		r.Amount = s.text()
	default:
		s.lateMember(string(name), r)
	}
}

// lateMember is the second half of member. A name that is in neither, or rare, is
// the strict decoder's.
func (s *recordScanner) lateMember(name string, r *Record) {
	switch name {
	case "idempotency_key":
		s.once(9)
		r.IdempotencyKey = s.text()
	case "ledger_entity":
		s.once(10)
		r.LedgerEntity = s.text()
	case "currency":
		s.once(11)
		r.Currency = s.word()
	case "line_sha256":
		s.once(12)
		s.hash(&r.LineSHA256)
	case "line_bytes":
		s.once(13)
		r.LineBytes = int64(s.number())
	case "worker":
		s.once(14)
		r.Worker = s.text()
	case "route":
		s.once(15)
		r.Route = Route(s.word())
	case "outcome":
		s.once(16)
		r.Outcome = s.text()
	case "by":
		s.once(17)
		r.By = s.text()
	case "reason":
		s.once(18)
		r.Reason = s.text()
	case "code":
		s.once(19)
		r.Code = Code(s.word())
	case "delivery":
		s.once(20)
		r.Delivery = int(s.number())
	case "failed_attempts":
		s.once(21)
		r.FailedAttempts = int(s.number())
	case "unanswered":
		s.once(22)
		r.Unanswered = int(s.number())
	case "until":
		s.once(23)
		r.Until = s.time()
	case "deadline":
		s.once(24)
		r.Deadline = s.time()
	case "peer":
		s.once(25)
		r.Peer = s.peer()
	default:
		s.ok = false
	}
}

// once refuses a member that was there before.
func (s *recordScanner) once(bit int) {
	s.ok = s.ok && s.seen&(1<<bit) == 0
	s.seen |= 1 << bit
}

// expect reads exactly these bytes.
func (s *recordScanner) expect(want string) {
	end := s.at + len(want)
	if end > len(s.line) || string(s.line[s.at:end]) != want {
		s.ok = false
		return
	}
	s.at = end
}

// quoted reads a string of plain ASCII and returns its inside.
func (s *recordScanner) quoted() []byte {
	s.expect(`"`)
	from := s.at
	for s.at < len(s.line) && plainASCII[s.line[s.at]] {
		s.at++
	}
	inside := s.line[from:s.at]
	s.expect(`"`)
	return inside
}

func (s *recordScanner) text() string { return string(s.quoted()) }

// word reads a string that is likely one of ours, which costs no memory then.
func (s *recordScanner) word() string {
	b := s.quoted()
	if known, ok := trailWords[string(b)]; ok {
		return known
	}
	return string(b)
}

// trailWords maps the fixed words of records to themselves.
var trailWords = func() map[string]string {
	words := map[string]string{"EUR": "EUR", "USD": "USD"}
	for _, e := range Events {
		words[string(e)] = string(e)
	}
	for _, d := range []MatchDecision{Matched, Partial, Unmatched} {
		words[string(d)] = string(d)
	}
	for _, r := range Routes {
		words[string(r)] = string(r)
	}
	return words
}()

// number reads an unsigned integer below 10^18, as JSON spells it.
func (s *recordScanner) number() uint64 {
	from, n := s.at, uint64(0)
	for s.at < len(s.line) && s.line[s.at]-'0' <= 9 {
		n = n*10 + uint64(s.line[s.at]-'0')
		s.at++
	}
	digits := s.at - from
	if digits == 0 || digits > 18 || digits > 1 && s.line[from] == '0' {
		s.ok = false
	}
	return n
}

func (s *recordScanner) hash(h *Hash) {
	b := s.quoted()
	if len(b) != 2*len(h) {
		s.ok = false
		return
	}
	for i := range h {
		hi, lo := unhex[b[2*i]], unhex[b[2*i+1]]
		s.ok = s.ok && hi|lo < 16
		h[i] = hi<<4 | lo
	}
}

// unhex is the value of a lower-case hexadecimal digit, 255 of any other byte.
var unhex = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for v := range hexDigits {
		t[hexDigits[v]] = byte(v)
	}
	return t
}()

func (s *recordScanner) peer() *Peer {
	s.expect(`{"uid":`)
	uid := s.number()
	s.expect(`,"gid":`)
	gid := s.number()
	s.expect(`,"pid":`)
	pid := s.number()
	s.expect("}")
	s.ok = s.ok && uid < 1<<32 && gid < 1<<32 && pid < 1<<31
	return &Peer{UID: uint32(uid), GID: uint32(gid), PID: int32(pid)}
}

// time reads a time in timeLayout.
func (s *recordScanner) time() time.Time {
	b := s.quoted()
	if len(b) != len(timeLayout) {
		s.ok = false
		return time.Time{}
	}
	n := func(at int) int {
		hi, lo := b[at]-'0', b[at+1]-'0'
		s.ok = s.ok && hi <= 9 && lo <= 9
		return int(hi)*10 + int(lo)
	}
	year, month, day := n(0)*100+n(2), time.Month(n(5)), n(8)
	hour, minute, second := n(11), n(14), n(17)
	micro := n(20)*10000 + n(22)*100 + n(24)
	for _, at := range [...]int{4, 7, 10, 13, 16, 19, 26} {
		s.ok = s.ok && b[at] == timeLayout[at] // the marks between the digits
	}
	t := time.Date(year, month, day, hour, minute, second, micro*1000, time.UTC)
	// A 30th of February becomes a day of March: not what was written.
	s.ok = s.ok && t.Month() == month && t.Day() == day && hour < 24 && minute < 60 && second < 60
	return t
}
