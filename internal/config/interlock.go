package config

import (
	"fmt"
	"net/url"

	"breakwater/queue"
)

// finding is a rule between keys that is broken. keys are those that it judges,
// the one to point at first.
type finding struct {
	keys       []string
	what, hint string
}

// interlocks reports every broken rule whose keys are all sound: a key with a
// problem of its own stands at its default, and a second message about that
// would be noise.
func (r *reader) interlocks() {
	for _, f := range r.cfg.interlocks() {
		if p, ok := r.cfg.locate(f, r.bad); ok {
			r.wrong = append(r.wrong, p)
		}
	}
}

// locate points a finding at the first of its keys that the file has.
func (c Config) locate(f finding, bad map[string]bool) (Problem, bool) {
	p := Problem{File: c.origin.file, Message: f.what, Hint: f.hint}
	for _, key := range f.keys {
		if bad[key] {
			return Problem{}, false
		}
		if at, ok := c.origin.places[key]; ok && p.Line == 0 {
			p.Line, p.Column = at.line, at.column
		}
	}
	return p, true
}

// interlocks lists every broken rule between keys.
func (c Config) interlocks() []finding {
	found := c.numberInterlocks()
	found = append(found, c.checkpointInterlocks()...)
	found = append(found, c.pathInterlocks()...)
	found = append(found, c.authorizationInterlocks()...)
	return append(found, c.routeInterlocks()...)
}

// atMost is the rule low <= high between two keys of the queue block.
type atMost struct {
	lowKey, highKey string
	low, high       int64
	why             string
}

// numberInterlocks are the pairs of queue keys of which one bounds the other. A
// handler's timeout is not among them: leases are renewed while it runs.
func (c Config) numberInterlocks() []finding {
	q := c.Queue
	rules := []atMost{
		{"prefetch", "queue_maxsize", int64(q.Prefetch), int64(q.MaxSize),
			"what is claimed at once has to fit the channels"},
		{"concurrency", "queue_maxsize", int64(q.Concurrency), int64(q.MaxSize),
			"every worker needs room for one"},
		{"lease_timeout_ms", "max_lease_timeout_ms", q.LeaseTimeout.Milliseconds(), q.MaxLeaseTimeout.Milliseconds(),
			"the lease of a consumer that asks for none is bounded too"},
		{"retry_initial_ms", "retry_max_ms", q.RetryInitial.Milliseconds(), q.RetryMax.Milliseconds(),
			"delays grow from the first to the longest"},
		{"max_attempts", "max_deliveries", int64(q.MaxAttempts), int64(q.MaxDeliveries),
			"every attempt is a delivery"},
		{"max_line_bytes", "max_intake_bytes", q.MaxLineBytes, q.MaxIntakeBytes,
			"the longest line has to fit"},
	}
	var found []finding
	for _, rule := range rules {
		if rule.low > rule.high {
			found = append(found, finding{
				keys: []string{"queue." + rule.lowKey, "queue." + rule.highKey},
				what: fmt.Sprintf("queue.%s%s must be at most queue.%s%s: it is %d against %d",
					rule.lowKey, c.defaulted("queue."+rule.lowKey), rule.highKey, c.defaulted("queue."+rule.highKey), rule.low, rule.high),
				hint: rule.why,
			})
		}
	}
	return found
}

// defaulted marks a key that the file does not have, so that nobody looks for it.
func (c Config) defaulted(key string) string {
	if _, given := c.origin.places[key]; given || c.origin.file == "" {
		return ""
	}
	return " (at its default)"
}

// noKey is what to do where there is no key.
const noKey = `make one with "breakwater audit keygen"`

// checkpointInterlocks: half a checkpoint would write nothing and say nothing.
func (c Config) checkpointInterlocks() []finding {
	key, output := "checkpoint.key", "checkpoint.output"
	switch {
	case c.Checkpoint.Key == "" && c.Checkpoint.Output != "":
		return []finding{{[]string{output, key}, "checkpoint.output needs checkpoint.key: heads are signed", noKey}}
	case c.Checkpoint.Key != "" && c.Checkpoint.Output == "":
		return []finding{{[]string{key, output}, "checkpoint.key needs checkpoint.output", `a file's path, "stdout" or "syslog"`}}
	}
	return nil
}

// authorizationInterlocks: a request has one Authorization header.
func (c Config) authorizationInterlocks() []finding {
	var found []finding
	for _, h := range c.Handlers {
		id := "handler." + h.Kind + "." + h.Name + "."
		var given []string
		if h.AuthorizationFile != "" {
			given = append(given, id+"authorization_file")
		}
		if h.AuthorizationEnv != "" {
			given = append(given, id+"authorization_env")
		}
		if u, err := url.Parse(h.URL); err == nil && u.User != nil {
			given = append(given, id+"url")
		}
		if len(given) > 1 {
			found = append(found, finding{given, given[0] + " and " + given[1] + " both authorise the request", "keep one of the two (a user in the url is one)"})
		}
	}
	return found
}

// ownPath is a path that the appliance creates or writes, and its key.
type ownPath struct{ key, path string }

// socketPaths are the paths that the kernel limits.
func (c Config) socketPaths() []ownPath {
	return []ownPath{
		{"socket.enqueue.path", c.Sockets.Enqueue.Path},
		{"socket.consume.path", c.Sockets.Consume.Path},
		{"socket.control.path", c.Sockets.Control.Path},
	}
}

// WitnessSuffix is what the store's witness, the small file beside it that
// remembers the newest head, adds to the store's path.
const WitnessSuffix = ".head"

// lockSuffix is what the file adds that says who has the store.
const lockSuffix = ".lock"

// pathInterlocks: sockets can be bound, and no path is used twice.
func (c Config) pathInterlocks() []finding {
	var found []finding
	said := false // of run_dir: what makes one socket's path too long makes all
	for _, s := range c.socketPaths() {
		if _, own := c.origin.places[s.key]; !own && said {
			continue
		} else if !own {
			said = len(s.path) > MaxSocketPath
		}
		if n := len(s.path); n > MaxSocketPath {
			found = append(found, finding{[]string{s.key, "run_dir", "data_dir"},
				fmt.Sprintf("the path of a socket has %d bytes, the limit is %d: %s is %s", n, MaxSocketPath, s.key, shownPath(s.path)),
				`set run_dir to a shorter folder, like "/run/breakwater"`})
		}
	}
	// The folders come first: a file cannot be where one of them is. They may be
	// the same as each other.
	first := map[string]string{c.DataDir: "data_dir", c.RunDir: "run_dir"}
	for _, p := range c.filePaths() {
		if other, twice := first[p.path]; twice {
			found = append(found, finding{[]string{p.key, other},
				fmt.Sprintf("%s and %s use the same path %s", other, p.key, shownPath(p.path)), "give each its own"})
		}
		first[p.path] = p.key
	}
	return found
}

// filePaths lists every file and socket that the appliance opens, the store's
// witness and lock included.
func (c Config) filePaths() []ownPath {
	paths := append([]ownPath{
		{"store.bbolt.path", c.Store.Path},
		{"store.bbolt.path", c.Store.Path + WitnessSuffix},
		{"store.bbolt.path", c.Store.Path + lockSuffix},
	}, c.socketPaths()...)
	for _, optional := range []ownPath{
		{"audit.stream", c.Audit.Stream},
		{"checkpoint.key", c.Checkpoint.Key},
		{"checkpoint.output", c.Checkpoint.Output},
	} {
		if isPath(optional.path) {
			paths = append(paths, optional)
		}
	}
	return paths
}

// isPath reports whether the value of a key that may also be a word is a path.
func isPath(value string) bool { return value != "" && value != Stdout && value != Syslog }

// shownPath is a path in full: cutting it would hide what is wrong with it.
func shownPath(p string) string { return `"` + p + `"` }

// routeInterlocks: a route leads to a handler that exists.
func (c Config) routeInterlocks() []finding {
	var found []finding
	for _, name := range queue.Routes {
		handler := c.Routes.Of(name).Handler
		if _, ok := c.Handler(handler); ok {
			continue
		}
		known := []string{KindLog, KindConsumers}
		for _, h := range c.Handlers {
			known = append(known, h.Name)
		}
		hint := didYouMean(handler, known)
		if hint == "" {
			hint = `define it with handler "exec" "` + handler + `" { … }, or use "log" or "consumers"`
		}
		key := "route." + string(name) + ".handler"
		found = append(found, finding{[]string{key}, key + " names a handler that is not defined: " + shown(handler), hint})
	}
	return found
}
