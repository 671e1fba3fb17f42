package control

import (
	"net/http"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// archiveAgain is when to ask again while an archive is being made, in seconds.
const archiveAgain = 5

// Refused is an error of what [Options] offers that is answered as it stands: its text
// is for whoever asked.
type Refused struct {
	Code     queue.Code // decides the status
	Conflict bool       // the request is right, and what is there already is in its way
	Err      error
	Hint     string // what to do; may be empty
}

// Error is what went wrong.
func (r *Refused) Error() string { return r.Err.Error() }

// Unwrap is the cause.
func (r *Refused) Unwrap() error { return r.Err }

// problem is the answer.
func (r *Refused) problem() *problem {
	p := &problem{status: http.StatusInternalServerError, code: r.Code, detail: r.Err.Error(), hint: r.Hint}
	switch {
	case r.Conflict:
		p.status = http.StatusConflict
	case r.Code == queue.CodeUsage:
		p.status = http.StatusBadRequest
	case r.Code == queue.CodeSaturated:
		p.status, p.retry = http.StatusTooManyRequests, archiveAgain
	case r.Code == queue.CodeDraining, r.Code == queue.CodeStorageUnavailable:
		p.status = http.StatusServiceUnavailable
	}
	return p
}

// archive makes an archive and answers when it is done. A client that leaves, and a
// drain, end it: then there is none.
func (s *Server) archive(x *exchange) error {
	var in api.ArchiveAct
	if err := x.body(&in); err != nil {
		return err
	}
	a, err := x.action(s.o.Now(), in.By, in.Reason)
	if err != nil {
		return err
	}
	if s.o.Archive == nil {
		return absent("make an archive")
	}
	ctx, cancel := x.streaming()
	defer cancel()
	done, err := s.o.Archive(ctx, a, in.Dest)
	if err != nil {
		return err
	}
	s.tell(x, &a, "path", done.Path, "bytes", done.Bytes, "head", done.Audit.Head)
	return x.ok(done)
}

// archiving says how far the archive is that is being made.
func (s *Server) archiving(x *exchange) error {
	if s.o.Archiving == nil {
		return x.ok(api.Archiving{})
	}
	return x.ok(s.o.Archiving())
}
