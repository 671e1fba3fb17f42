package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// problem is an answer that is not a success. It is the only error that a handler
// makes itself; errors of the store are translated in one place, here.
type problem struct {
	status int
	code   queue.Code
	detail string
	hint   string
	field  string // api.Problem.Field

	reasons []string // api.Problem.Reasons
	allow   string   // 405: the methods there are
	retry   int      // seconds after which it may be tried again; 0: not said
}

// Error returns what went wrong, for a log.
func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.status, p.code, p.detail) }

// body is the document that the client gets.
func (p *problem) body() api.Problem {
	return api.Problem{
		Title: http.StatusText(p.status), Status: p.status, Code: string(p.code),
		Detail: p.detail, Hint: p.hint, Field: p.field, Reasons: p.reasons,
	}
}

// usage is the caller's mistake.
func usage(format string, args ...any) *problem {
	return &problem{status: http.StatusBadRequest, code: queue.CodeUsage, detail: fmt.Sprintf(format, args...)}
}

// missing is what there is not.
func missing(format string, args ...any) *problem {
	return &problem{status: http.StatusNotFound, code: queue.CodeNotFound, detail: fmt.Sprintf(format, args...)}
}

// busy is a limit that will be free again.
func busy(detail string, seconds int) *problem {
	return &problem{status: http.StatusTooManyRequests, code: queue.CodeSaturated, detail: detail, retry: seconds}
}

// problemOf says how an error is answered. The text of errors that are not ours to
// explain stays in the log: it may name paths of the host.
func problemOf(err error) *problem {
	var p *problem
	var refused *Refused
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refused):
		return refused.problem()
	case errors.As(err, &tooLong):
		return &problem{status: http.StatusRequestEntityTooLarge, code: queue.CodeUsage,
			detail: fmt.Sprintf("the body is longer than %d bytes", tooLong.Limit), hint: "split the request"}
	case errors.Is(err, queue.ErrNoPage):
		return usage("after must be the next of a page of the same list")
	case errors.Is(err, queue.ErrTrimmed):
		p := missing("it is over, and retention has removed its records")
		p.hint = "an archive from before may have them"
		return p
	case errors.Is(err, queue.ErrNotFound):
		return missing("there is no such exception")
	case errors.Is(err, queue.ErrClosed):
		return &problem{status: http.StatusServiceUnavailable, code: queue.CodeDraining,
			detail: "the store is closed: the process is ending", hint: "ask again after the restart"}
	case errors.Is(err, queue.ErrNoRoom):
		return &problem{status: http.StatusServiceUnavailable, code: queue.CodeStorageUnavailable,
			detail: "there is no room to store it; nothing was changed", hint: "free space on the store's disk"}
	case errors.Is(err, queue.ErrFailed):
		return &problem{status: http.StatusServiceUnavailable, code: queue.CodeStorageUnavailable,
			detail: "the store has failed; the process ends", hint: "see the log, then restart it"}
	case errors.Is(err, queue.ErrDamaged):
		return &problem{status: http.StatusInternalServerError, code: queue.CodeInternal,
			detail: "stored data is damaged", hint: `run "breakwater audit verify" to see where`}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &problem{status: http.StatusServiceUnavailable, code: queue.CodeStorageUnavailable,
			detail: "it took too long, or the server is stopping", retry: 1}
	}
	return &problem{status: http.StatusInternalServerError, code: queue.CodeInternal,
		detail: "an error inside the server", hint: "the log says which"}
}
