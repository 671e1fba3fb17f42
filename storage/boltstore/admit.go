package boltstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// prepared is what a caller's goroutine computes of a line, so that the committer
// only places it.
type prepared struct {
	key    keyHash
	slot   partition.Slot
	entry  ledger.Entry
	stored queue.Stored
	record []byte
}

// Admit stores new messages; see [queue.Store].
func (s *Store) Admit(ctx context.Context, r queue.AdmitRequest) (queue.AdmitResult, error) {
	if len(r.Lines) == 0 {
		head, err := s.Head(ctx)
		return queue.AdmitResult{Head: head}, err
	}
	lines, bytes := s.prepare(r.Lines)
	var res queue.AdmitResult
	op := &operation{admits: true, bytes: bytes, apply: func(x *txn) error {
		res = queue.AdmitResult{Receipts: make([]queue.Receipt, len(lines))}
		a := admission{txn: x, r: &r, lines: lines}
		return a.run(res.Receipts)
	}}
	if err := s.do(ctx, op); err != nil {
		if errors.Is(err, queue.ErrNoRoom) {
			return res, err
		}
		return queue.AdmitResult{}, err
	}
	res.Head = op.head
	return res, nil
}

// prepare hashes and encodes lines.
func (s *Store) prepare(lines []queue.Submission) (out []prepared, bytes int) {
	out = make([]prepared, len(lines))
	size := 0
	for i := range lines {
		size += len(lines[i].Message.Line) + recordHeader + 256
	}
	buf := make([]byte, 0, size)
	for i := range lines {
		m := lines[i].Message
		if lines[i].Fault != nil {
			shorten(&m)
		}
		p := &out[i]
		p.key = hashKey(s.secret, m.PartitionKey)
		p.slot = partition.SlotOf(m.PartitionKey)
		p.stored = queue.StoredOf(0, &m)
		p.entry = ledgerEntry(s.secret, &p.stored)
		start := len(buf)
		buf = appendRecord(buf, &m, p.key)
		p.record = buf[start:len(buf):len(buf)]
	}
	return out, len(buf)
}

// hashKey is the key hash of a partition key.
func hashKey(secret [32]byte, partitionKey string) keyHash {
	var buf [32 + queue.MaxPartitionKey]byte
	sum := sha256.Sum256(append(append(buf[:0], secret[:]...), partitionKey...))
	return keyHash(sum[:16])
}

// fingerprint decides what "the same content" is: source hash, currency and
// partition key.
func fingerprint(source queue.Hash, currency, partitionKey string) [16]byte {
	var buf [len(queue.Hash{}) + 8 + queue.MaxPartitionKey]byte
	b := append(buf[:0], source[:]...)
	b = append(append(b, currency...), 0)
	sum := sha256.Sum256(append(b, partitionKey...))
	return [16]byte(sum[:16])
}

// digestsOf keeps a little of each member, so that a conflict can name the one
// that differs.
func digestsOf(m *queue.Stored) (d ledger.Digests) {
	d[ledger.LedgerEntity] = ledger.Digest(m.LedgerEntity)
	d[ledger.VarianceAmount] = ledger.Digest(canonical(m.Amount, m.Currency))
	d[ledger.MatchDecision] = ledger.Digest(string(m.Decision))
	d[ledger.Currency] = ledger.Digest(m.Currency)
	d[ledger.PartitionKey] = ledger.Digest(m.PartitionKey)
	return d
}

// canonical is an amount as the source hash has it, so that an amount that is only
// written otherwise is never named as what differs.
func canonical(amount, currency string) string {
	a, err := queue.CheckAmount(amount, currency)
	if err != nil {
		return amount
	}
	return a.Canonical()
}

// shorten bounds the members of a quarantined line, which no gate has bounded;
// its bytes are kept in any case.
func shorten(m *queue.Message) {
	for _, s := range [...]*string{&m.TraceID, &m.IdempotencyKey, &m.PartitionKey, &m.LedgerEntity, &m.Amount, &m.Currency} {
		if len(*s) > queue.MaxRecordID {
			cut := queue.MaxRecordID
			for cut > 0 && !utf8.RuneStart((*s)[cut]) {
				cut--
			}
			*s = (*s)[:cut]
		}
	}
}

// admission is one Admit request in its transaction.
type admission struct {
	*txn
	r     *queue.AdmitRequest
	lines []prepared
	full  queue.Saturation // set by the first refusal
}

// memory is what the ledger has of a line's idempotency key.
type memory struct {
	entry ledger.Entry
	doubt error // nobody can say what it has; see inDoubt
}

// run answers every line. What can fail is looked up before anything is changed.
func (a *admission) run(receipts []queue.Receipt) error {
	known := make([]memory, len(a.lines))
	for i := range a.lines {
		if a.r.Lines[i].Fault != nil {
			continue
		}
		e, err := a.recall(a.lines[i].entry.Key)
		if err != nil && !inDoubt(err) {
			return fmt.Errorf("look up line %d: %w", i+1, err)
		}
		known[i] = memory{e, err}
	}
	for i := range a.lines {
		receipt, err := a.line(i, known[i])
		if inDoubt(err) {
			receipt, err = unjudged(), nil // nothing was changed by it
		}
		if err != nil {
			return err
		}
		receipts[i] = receipt
	}
	return nil
}

// unjudged is the receipt of a line of which nobody can say whether it is known: stored
// it might be a second time, and called a duplicate it might be lost. Its neighbours
// are no concern of it.
func unjudged() queue.Receipt {
	return queue.Receipt{
		Status: queue.Rejected, Code: queue.CodeStorageUnavailable,
		Error: "not stored: " + doubtText,
	}
}

// line answers one line. An error that is inDoubt comes before any change.
func (a *admission) line(i int, known memory) (queue.Receipt, error) {
	sub, p, e := &a.r.Lines[i], &a.lines[i], known.entry
	if sub.Fault != nil {
		if of, ok, err := a.follow(a.lineName(sub.LineHash)); err != nil || ok {
			return a.duplicateOf(of, err)
		}
		return a.quarantine(sub, p)
	}
	if newer, ok := a.pending[p.entry.Key]; ok {
		e = newer // perhaps accepted by an earlier line of this request
	} else if known.doubt != nil {
		return queue.Receipt{}, known.doubt
	}
	free := !a.t.taken(e)
	if !free && e.Fingerprint == p.entry.Fingerprint {
		return a.duplicate(e)
	}
	if of, ok, err := a.former(sub, p); err != nil || ok {
		return a.duplicateOf(of, err)
	}
	if free {
		return a.accept(sub, p, e)
	}
	return a.conflict(sub, p, e)
}

// former finds the message whose content this was before it was edited.
func (a *admission) former(sub *queue.Submission, p *prepared) (of ledger.Entry, ok bool, err error) {
	if a.b.aliases == nil {
		return of, false, nil
	}
	if of, ok, err = a.follow(a.lineName(sub.LineHash)); err != nil || ok {
		return of, ok, err
	}
	return a.follow(a.contentName(p.entry.Key, p.entry.Fingerprint))
}

// duplicateOf is duplicate after a look-up that may have failed.
func (a *admission) duplicateOf(of ledger.Entry, err error) (queue.Receipt, error) {
	if err != nil {
		return queue.Receipt{}, err
	}
	return a.duplicate(of)
}

// duplicate answers with the state of the first.
func (a *admission) duplicate(e ledger.Entry) (queue.Receipt, error) {
	a.skip(e.Seq, a.r.Now)
	r := queue.Receipt{Status: queue.Duplicate, Seq: e.Seq}
	switch e.State {
	case ledger.StateDone:
		r.State, r.Outcome, r.SettledAt = queue.Done, e.Outcome, micros(uint64(e.SettledAt))
	case ledger.StateDiscarded:
		r.State = queue.Discarded
	case ledger.StateDead:
		r.State = queue.Dead
	default:
		state, err := a.openState(e.Seq)
		if errors.Is(err, queue.ErrDamaged) {
			state, err = queue.Held, nil // what keeps it is that its bytes are damaged
		}
		if err != nil {
			return r, err
		}
		r.State = state
	}
	return r, nil
}

// accept takes a new message into the order, or keeps it until its time. before is what
// the ledger has of its idempotency key.
func (a *admission) accept(sub *queue.Submission, p *prepared, before ledger.Entry) (queue.Receipt, error) {
	k := a.t.keys.get(p.key)
	if a.full == "" {
		a.full = a.noRoom(k == nil || k.open == 0)
	}
	if a.full != "" {
		return a.refuse(), nil
	}
	t, m := a.t, &sub.Message
	t.count.lastSeq++
	seq := t.count.lastSeq
	a.room.take(len(p.record))
	sealRecord(p.record, seq, a.r.Now)
	p.stored.Seq = seq
	p.entry.Seq, p.entry.State = seq, ledger.StateOpen
	a.claimKey(p.entry, before)
	a.record(queue.AcceptedRecord(a.r.Now, &p.stored, m.Route, m.NotBefore, sub.LineBytes, sub.LineHash, a.r.Peer))
	a.t.openAges.add(queue.Minute(a.r.Now), 1)
	receipt := queue.Receipt{Status: queue.Accepted, Seq: seq}
	if m.NotBefore.After(a.r.Now) {
		return receipt, a.schedule(seq, m.NotBefore, p.record)
	}
	if k == nil {
		k = t.keyOf(p.key, p.slot)
	}
	ref := messageRef{place: queue.Place{Seq: seq}, route: routeByte(m.Route), priority: m.Priority}
	return receipt, a.place(k, ref, p.record)
}

// place appends a message to the order.
func (x *txn) place(k *key, ref messageRef, record []byte) error {
	if err := x.b.backlog.Put(ref.place.AppendKey(nil), record); err != nil {
		return fmt.Errorf("store a message: %w", err)
	}
	x.t.lift(k)
	k.come(ref.place, worthIn(record))
	if err := x.enter(k, ref); err != nil {
		return err
	}
	return x.settle(k)
}

// quarantine keeps a line that a gate refused.
func (a *admission) quarantine(sub *queue.Submission, p *prepared) (queue.Receipt, error) {
	if r, ok, err := a.repeat(sub.LineHash); ok || err != nil {
		return r, err
	}
	flags := byte(deadAtDoor)
	if sub.LineBytes > int64(len(sub.Message.Line)) {
		flags |= deadCut
	}
	return a.letter(sub, p, flags, deadMeta{Code: queue.CodePoison, Field: sub.Fault.Field, Reason: sub.Fault.Reason})
}

// conflict keeps a line that uses a known key for other content.
func (a *admission) conflict(sub *queue.Submission, p *prepared, e ledger.Entry) (queue.Receipt, error) {
	if r, ok, err := a.repeat(sub.LineHash); ok || err != nil {
		return r, err
	}
	differs := e.Members.Diff(p.entry.Members)
	if differs == "" {
		differs = "content"
	}
	return a.letter(sub, p, deadDiffers, deadMeta{Code: queue.CodeConflict, Of: e.Seq, Reason: differs + " differs"})
}

// letter stores a line that never enters the order.
func (a *admission) letter(sub *queue.Submission, p *prepared, flags byte, meta deadMeta) (queue.Receipt, error) {
	if a.full == "" {
		a.full = a.room.forLetter(a.t, a.r.Limits)
	}
	if a.full != "" {
		return a.refuse(), nil
	}
	a.t.count.lastSeq++
	seq := a.t.count.lastSeq
	a.room.take(len(p.record) + deadHeader)
	sealRecord(p.record, seq, a.r.Now)
	meta.DeadAt, meta.LineBytes = micros(uint64(a.r.Now.UnixMicro())), sub.LineBytes
	p.stored.Seq = seq
	a.record(queue.QuarantinedRecord(a.r.Now, &p.stored, meta.Code, meta.Of, meta.Field, meta.Reason, sub.LineBytes, sub.LineHash, a.r.Peer))
	d := deadLetter{seq: seq, flags: flags, line: sub.LineHash, meta: meta, record: p.record}
	return d.receipt(), a.bury(&d)
}

// receipt is what the sender of a line that became this letter is told.
func (d *deadLetter) receipt() queue.Receipt {
	r := queue.Receipt{Status: queue.Quarantined, Seq: d.seq, Code: d.meta.Code, Field: d.meta.Field, Error: d.meta.Reason}
	if d.flags&deadDiffers != 0 {
		r.Status, r.Of = queue.Conflict, d.meta.Of
	}
	return r
}

// repeat answers a line that is byte-identical to an open letter.
func (a *admission) repeat(line queue.Hash) (queue.Receipt, bool, error) {
	seq, ok := a.t.letters[letterOf(line)]
	if !ok {
		return queue.Receipt{}, false, nil
	}
	d, ok, err := a.txn.letter(uint64(seq))
	if err != nil || !ok || d.line != line {
		return queue.Receipt{}, false, err
	}
	r := d.receipt()
	r.Repeat = true
	return r, true, nil
}

// refuse is the receipt of a line for which there is no room.
func (a *admission) refuse() queue.Receipt {
	return queue.Receipt{
		Status: queue.Rejected, Code: queue.CodeSaturated, Reason: a.full,
		Error: "no room: " + string(a.full) + " is reached",
	}
}

// schedule keeps a message until its time.
func (x *txn) schedule(seq uint64, notBefore time.Time, record []byte) error {
	at := scheduleKey(notBefore, seq)
	x.t.scheduled++
	x.t.scheduledWorth.change(worthIn(record), 1)
	if x.t.nextDue.IsZero() || notBefore.Before(x.t.nextDue) {
		x.t.nextDue = notBefore
	}
	if err := x.b.timed.Put(seqKey(seq), append([]byte{timedWaits}, at...)); err != nil {
		return fmt.Errorf("schedule a message: %w", err)
	}
	return x.b.scheduled.Put(at, record)
}
