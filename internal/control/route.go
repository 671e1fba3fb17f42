package control

import (
	"net/http"
	"slices"
	"strings"

	"breakwater/queue"
)

// endpoint is one thing that can be asked. Its path may end in "/{seq}", or have that
// before its last segment.
type endpoint struct {
	method string
	path   string
	query  []string // the query's keys that it knows
	handle func(*exchange) error
}

// routes finds endpoints: path, then method. There is no http.ServeMux because
// every refusal here is a problem document, and a path is either right or not there:
// nothing is cleaned, redirected or guessed.
type routes map[string]map[string]*endpoint

// seqPart is the last segment of a path that names one exception.
const seqPart = "/{seq}"

func newRoutes(all []endpoint) routes {
	r := routes{}
	for i := range all {
		e := &all[i]
		if r[e.path] == nil {
			r[e.path] = map[string]*endpoint{}
		}
		r[e.path][e.method] = e
	}
	return r
}

// find returns the endpoint of a request, and the last segment of its path where
// that is a seq. Paths in full come first: /v1/dead-letters/replay is no seq.
func (r routes) find(method, path string) (e *endpoint, seq string, err error) {
	methods := r[path]
	if methods == nil {
		if at := strings.LastIndexByte(path, '/'); at > 0 {
			methods, seq = r[path[:at]+seqPart], path[at+1:]
		}
	}
	if methods == nil {
		methods, seq = r.below(path)
	}
	if methods == nil {
		return nil, "", missing("there is nothing at this path")
	}
	if e = methods[method]; e == nil && method == http.MethodHead {
		e = methods[http.MethodGet]
	}
	if e == nil {
		return nil, "", &problem{
			status: http.StatusMethodNotAllowed, code: queue.CodeUsage,
			detail: "this path does not know the method", allow: allowed(methods),
		}
	}
	return e, seq, nil
}

// below finds an endpoint behind a seq: /v1/exceptions/42/why.
func (r routes) below(path string) (methods map[string]*endpoint, seq string) {
	end := strings.LastIndexByte(path, '/')
	if end <= 0 {
		return nil, ""
	}
	at := strings.LastIndexByte(path[:end], '/')
	if at <= 0 {
		return nil, ""
	}
	return r[path[:at]+seqPart+path[end:]], path[at+1 : end]
}

// allowed lists the methods of a path (RFC 9110, section 10.2.1).
func allowed(methods map[string]*endpoint) string {
	var names []string
	for m := range methods {
		names = append(names, m)
		if m == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
