package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// consumer is one connection to the consume socket.
type consumer struct {
	server    *ConsumeServer
	conn      net.Conn
	peer      queue.Peer
	log       hclog.Logger
	closing   context.Context // its end begins the closing of the connection
	answering context.Context // ends a while later
	out       *outbox

	// Of the goroutine that reads.
	session Session  // nil: not attached
	batch   []said   // read together, not yet done: all of one kind, and faults
	kind    verbKind // of the batch; 0: nothing but faults

	telling    sync.WaitGroup     // the goroutine that waits for what there is to tell
	endTelling context.CancelFunc // ends it; nil: there is none
}

// serve reads lines and does what they say, until the consumer leaves, is gone, or
// has to leave. Leases stay, but of a consumer that detaches.
func (k *consumer) serve() {
	lines := newLineReader(k.conn, &k.server.pool, maxAnswerLine, answerBatch)
	defer lines.close()
	defer k.leave()
	for {
		k.out.waitForRoom(k.closing)
		batch, err := lines.next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
				k.log.Warn("reading answers ended early", "error", err)
			}
			return
		}
		last := k.take(batch.lines, time.Now())
		batch.release()
		if last {
			return
		}
	}
}

// take does what the lines of a batch say, in their order. It reports whether the
// consumer has said its last word, or may say no more.
func (k *consumer) take(lines []line, at time.Time) (last bool) {
	for i := range lines {
		l := &lines[i]
		if k.session == nil {
			k.attach(l)
			continue
		}
		a := k.read(l, at)
		switch {
		case a.fault != "":
		case a.kind == detach:
			return !k.do() || k.putBack()
		case k.kind == 0:
			k.kind = a.kind
		case k.kind != a.kind:
			// In their order: what comes after an answer may depend on it.
			if !k.do() {
				return true
			}
			k.kind = a.kind
		}
		k.batch = append(k.batch, a)
	}
	return !k.do()
}

// read reads one answer.
func (k *consumer) read(l *line, at time.Time) (a said) {
	if fault := unreadable(l); fault != "" {
		a.fault = fault
	} else {
		a = readAnswer(l.bytes)
	}
	a.line, a.settlement.At = l.number, at
	return a
}

// unreadable says why a line is not even looked at.
func unreadable(l *line) string {
	switch {
	case l.long != nil:
		return fmt.Sprintf("line of %d bytes, the limit is %d", l.long.length, maxAnswerLine)
	case l.unterminated && !isObject(l.bytes):
		return "the stream ended before the line did"
	}
	return ""
}

// attach takes the first line. A consumer that is not attached may try again.
func (k *consumer) attach(l *line) {
	r, err := request{}, error(nil)
	if fault := unreadable(l); fault != "" {
		err = errors.New(fault)
	} else if r, err = readAttach(l.bytes); err == nil {
		err = k.grant(&r)
	}
	if err != nil {
		k.out.add(func(dst []byte) []byte { return appendFault(dst, l.number, err.Error()) })
		return
	}
	session, err := k.server.desk.Attach(k.answering, queue.Attachment{
		Owner: queue.Owner{Kind: queue.Consumer, Name: r.name, UID: k.peer.UID}, Peer: k.peer,
		Prefetch: r.prefetch, Routes: r.routes, Lease: r.lease,
	})
	if err != nil {
		code := refusalCode(err)
		if code == queue.CodeInternal {
			k.log.Error("consumer not attached", "consumer", r.name, "error", err)
		}
		k.out.add(func(dst []byte) []byte { return appendNotAttached(dst, r.name, code, err.Error()) })
		return
	}
	k.session = session
	k.log = k.log.With("consumer", r.name)
	k.log.Info("consumer attached", "prefetch", r.prefetch, "lease_timeout_ms", r.lease.Milliseconds())
	k.out.setTimeout(r.lease)
	k.out.add(func(dst []byte) []byte { return appendAttached(dst, r.name, r.lease) })
	var telling context.Context
	telling, k.endTelling = context.WithCancel(k.answering)
	k.telling.Go(func() { k.tell(telling, session) })
}

// grant compares what is asked for with what may be. Nobody is given less than it
// asked for: it would work as if it had it.
func (k *consumer) grant(r *request) error {
	o := k.server.options.Load()
	switch {
	case r.prefetch > o.MaxPrefetch:
		return fmt.Errorf("prefetch is %s, max_prefetch is %d", r.wrote.prefetch, o.MaxPrefetch)
	case r.lease > o.MaxLease:
		return fmt.Errorf("lease_timeout_ms is %s, max_lease_timeout_ms is %d", r.wrote.lease, o.MaxLease.Milliseconds())
	case r.lease == 0:
		r.lease = o.Lease
	}
	return nil
}

// refusalCode is the code of an error of the desk.
func refusalCode(err error) queue.Code {
	switch {
	case errors.Is(err, queue.ErrNameInUse):
		return queue.CodeNameInUse
	case errors.Is(err, queue.ErrDraining):
		return queue.CodeDraining
	case errors.Is(err, queue.ErrNoRoom):
		return queue.CodeStorageUnavailable
	}
	return queue.CodeInternal
}

// do does what was read, and answers each line. It reports whether the consumer may
// go on: not when nobody knows what became of its answers.
func (k *consumer) do() bool {
	var err error
	switch k.kind {
	case settle:
		err = k.settle()
	case extend:
		err = k.extend()
	}
	if err != nil {
		k.log.Error("answers not confirmed: it is not known whether they count", "answers", len(k.batch), "error", err)
		k.conn.Close()
		return false
	}
	for i := range k.batch {
		k.out.add(func(dst []byte) []byte { return appendReply(dst, &k.batch[i]) })
	}
	clear(k.batch) // what the answers point to must not live as long as the connection
	k.batch, k.kind = k.batch[:0], 0
	if cap(k.batch) > keptAnswers {
		k.batch = nil // an unusual burst is not kept for ever
	}
	return true
}

// settle has the answers of the batch settled together. The error is that nobody knows
// whether they are.
func (k *consumer) settle() error {
	var request []queue.Settlement
	for i := range k.batch {
		if k.batch[i].fault == "" {
			request = append(request, k.batch[i].settlement)
		}
	}
	results, err := k.session.Answer(k.answering, request)
	return k.each(err, len(results) == len(request), func(a *said, i int) {
		a.seq, a.code, a.why = results[i].Seq, results[i].Code, results[i].Error
	})
}

// extend has the leases of the batch extended together.
func (k *consumer) extend() error {
	var tokens []queue.Token
	var at time.Time
	for i := range k.batch {
		if k.batch[i].fault == "" {
			tokens, at = append(tokens, k.batch[i].settlement.Token), k.batch[i].settlement.At
		}
	}
	results, err := k.session.Extend(k.answering, at, tokens)
	return k.each(err, len(results) == len(tokens), func(a *said, i int) {
		a.seq, a.deadline, a.code = results[i].Seq, results[i].Deadline, results[i].Code
		a.why = "the lease is over, or it is somebody else's"
		if a.code == queue.CodeAlreadySettled {
			a.why = "the message is settled"
		}
	})
}

// each notes what became of the answers of the batch: of each its result, or that
// none of them was applied.
func (k *consumer) each(err error, whole bool, note func(a *said, i int)) error {
	code := queue.Code("")
	if err != nil {
		if code = refusalCode(err); code == queue.CodeInternal {
			return err
		}
	} else if !whole {
		return errors.New("the store has not answered every lease")
	}
	n := 0
	for i := range k.batch {
		switch a := &k.batch[i]; {
		case a.fault != "":
		case code != "":
			a.code, a.why = code, err.Error()
		default:
			note(a, n)
			n++
		}
	}
	return nil
}

// putBack ends the attachment for good. It always reports true: the consumer has said
// its last word.
func (k *consumer) putBack() bool {
	session := k.session
	k.session = nil
	if err := session.Detach(k.answering); err != nil {
		k.log.Error("not everything was put back: it is when the leases end", "error", err)
		k.stopTelling()
		return true
	}
	k.stopTelling()
	k.log.Info("consumer detached")
	k.out.add(func(dst []byte) []byte { return appendEvent(dst, "detached") })
	return true
}

// leave ends what is left of an attachment. Its leases stay.
func (k *consumer) leave() {
	k.stopTelling()
	if k.session == nil {
		return
	}
	if err := k.session.Break(k.answering); err != nil {
		k.log.Error("consumer not marked as gone", "error", err)
	}
	k.log.Info("consumer gone; its leases stay")
}

// stopTelling ends the deliveries.
func (k *consumer) stopTelling() {
	if k.endTelling != nil {
		k.endTelling()
	}
	k.telling.Wait()
}

// addHeld adds a line about a lease that is still held. A consumer that has come back
// answers for leases that it is being told of again: after the reply to such an answer
// it must not be told of the lease, or it would take it for a new one. The session
// forgets a lease before the reply to its answer is added, so that whoever finds it held
// while nothing else is added comes first.
func (k *consumer) addHeld(session Session, t queue.Token, appendLine func(dst []byte) []byte) {
	k.out.add(func(dst []byte) []byte {
		if !session.Holds(t) {
			return dst
		}
		return appendLine(dst)
	})
}

// tell sends what there is to tell, at the pace at which it is taken, until ctx ends
// or the session does.
func (k *consumer) tell(ctx context.Context, session Session) {
	for {
		k.out.waitForRoom(ctx)
		n, err := session.Next(ctx)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, queue.ErrDetached) {
				k.log.Error("nothing more is delivered", "error", err)
				k.conn.Close() // which ends the reading too
			}
			return
		}
		for i := range n.Deliveries {
			d := &n.Deliveries[i]
			k.out.waitForRoom(ctx)
			k.addHeld(session, d.Token, func(dst []byte) []byte { return appendDelivery(dst, d) })
		}
		for i := range n.Ending {
			e := &n.Ending[i]
			k.addHeld(session, e.Token, func(dst []byte) []byte { return appendEnding(dst, e) })
		}
		if n.Draining {
			k.out.add(func(dst []byte) []byte { return appendEvent(dst, "draining") })
		}
	}
}
