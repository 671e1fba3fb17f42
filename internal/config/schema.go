package config

import "time"

// setting is one key of the file, bound to the field of one Config. It is the
// only description of the key; see the package comment.
type setting struct {
	name  string
	live  bool // a reload may change it; else it needs a restart
	value value
}

// section is one block of the file, or its top level (no name).
type section struct {
	block    string
	labels   []string
	settings []setting
}

// id names a key across the file, as messages and CONFIG_CHANGED do:
// "data_dir", "queue.prefetch", "socket.enqueue.mode".
func (s section) id(key string) string {
	id := ""
	for _, part := range s.path() {
		id += part + "."
	}
	return id + key
}

// path is the block's name and labels; empty for the top level.
func (s section) path() []string {
	if s.block == "" {
		return nil
	}
	return append([]string{s.block}, s.labels...)
}

// find returns the setting of one name.
func (s section) find(name string) (setting, bool) {
	for _, one := range s.settings {
		if one.name == name {
			return one, true
		}
	}
	return setting{}, false
}

// schema lists every block that c has, in the order of the reference file.
// Reading through it writes into c; relative paths are taken from base.
func schema(c *Config, base string) []section {
	sections := []section{
		{settings: []setting{
			{"data_dir", false, path{dst: &c.DataDir, base: base}},
			{"run_dir", false, path{dst: &c.RunDir, base: base}},
		}},
		{block: "store", labels: []string{"bbolt"}, settings: []setting{
			{"path", false, path{dst: &c.Store.Path, base: base}},
		}},
		{block: "queue", settings: queueSettings(&c.Queue)},
	}
	sections = append(sections, memorySections(c, base)...)
	sections = append(sections, []section{
		{block: "metrics", settings: []setting{
			{"listen", false, text{&c.Metrics.Listen, checkListen}},
		}},
		{block: "socket", labels: []string{"enqueue"}, settings: socketSettings(&c.Sockets.Enqueue, base)},
		{block: "socket", labels: []string{"consume"}, settings: socketSettings(&c.Sockets.Consume, base)},
		{block: "socket", labels: []string{"control"}, settings: socketSettings(&c.Sockets.Control, base)},
		{block: "route", labels: []string{"AUTO_RESOLVE"}, settings: routeSettings(&c.Routes.AutoResolve)},
		{block: "route", labels: []string{"ROUTE_REVIEW"}, settings: routeSettings(&c.Routes.RouteReview)},
	}...)
	for i := range c.Handlers {
		sections = append(sections, handlerSection(&c.Handlers[i], base))
	}
	return append(sections, section{block: "log", settings: []setting{
		{"level", true, choice{&c.Log.Level, []string{"trace", "debug", "info", "warn", "error"}}},
		{"format", false, choice{&c.Log.Format, []string{"json", "text"}}},
	}})
}

// memorySections say what is remembered of settled exceptions, and for how long.
// What grows or shrinks in the file is live; what else is written to is opened
// once.
func memorySections(c *Config, base string) []section {
	return []section{
		{block: "ledger", settings: []setting{
			{"retention_h", true, duration(&c.Ledger.Retention, time.Hour, time.Hour, MaxRetention)},
			{"max_keys", true, count(&c.Ledger.MaxKeys, 1, MaxLedgerKeys)},
		}},
		{block: "audit", settings: []setting{
			{"retention_h", true, duration(&c.Audit.Retention, time.Hour, time.Hour, MaxRetention)},
			{"require_archive", true, truth{&c.Audit.RequireArchive}},
			{"stream", false, path{dst: &c.Audit.Stream, base: base, optional: true, words: []string{Stdout}}},
		}},
		{block: "checkpoint", settings: []setting{
			{"key", false, path{dst: &c.Checkpoint.Key, base: base, optional: true}},
			{"output", false, path{dst: &c.Checkpoint.Output, base: base, optional: true, words: []string{Stdout, Syslog}}},
			{"interval_s", false, duration(&c.Checkpoint.Interval, time.Second, time.Second, MaxCheckpoint)},
		}},
	}
}

// queueSettings are the knobs that an operator turns while the backlog grows, when a
// restart is the last thing to ask for.
func queueSettings(q *Queue) []setting {
	ms, s := time.Millisecond, time.Second
	return []setting{
		{"concurrency", true, count(&q.Concurrency, 1, MaxConcurrency)},
		{"queue_maxsize", true, count(&q.MaxSize, 1, MaxQueueSize)},
		{"prefetch", true, count(&q.Prefetch, 1, MaxPrefetch)},
		{"lease_timeout_ms", true, duration(&q.LeaseTimeout, ms, MinLease, MaxLease)},
		{"max_lease_timeout_ms", true, duration(&q.MaxLeaseTimeout, ms, MinLease, MaxLease)},
		{"max_prefetch", true, count(&q.MaxPrefetch, 1, MaxPrefetch)},
		{"drain_timeout_s", true, duration(&q.DrainTimeout, s, s, MaxDrain)},
		{"max_attempts", true, count(&q.MaxAttempts, 1, MaxAttempts)},
		{"max_deliveries", true, count(&q.MaxDeliveries, 1, MaxDeliveries)},
		{"retry_initial_ms", true, duration(&q.RetryInitial, ms, ms, MaxRetry)},
		{"retry_max_ms", true, duration(&q.RetryMax, ms, ms, MaxRetry)},
		{"on_dead_letter", true, choice{&q.OnDeadLetter, []string{HoldKey, SkipKey}}},
		{"consumer_lag_s", true, duration(&q.ConsumerLag, s, s, MaxLag)},
		{"max_backlog", true, count(&q.MaxBacklog, 1, MaxBacklog)},
		{"max_open_keys", true, count(&q.MaxOpenKeys, 1, MaxOpenKeys)},
		{"max_dead_letters", true, count(&q.MaxDeadLetters, 1, MaxDeadLetters)},
		{"max_store_bytes", true, orNone(size(&q.MaxStoreBytes, MinStoreBytes, MaxBytes))},
		{"min_free_bytes", true, size(&q.MinFreeBytes, 0, MaxBytes)},
		{"on_saturated", true, choice{&q.OnSaturated, []string{BlockIntake, RejectIntake}}},
		{"max_line_bytes", true, size(&q.MaxLineBytes, MinLineBytes, MaxLineBytes)},
		{"max_intake_bytes", true, size(&q.MaxIntakeBytes, MinLineBytes, MaxIntakeBytes)},
		{"receipt_timeout_ms", true, duration(&q.ReceiptTimeout, ms, ms, MaxReceiptTimeout)},
	}
}

// socketSettings need a restart but for the limit: the doors are opened once, and a
// mode that changes under a connected client would promise what it cannot keep.
func socketSettings(s *Socket, base string) []setting {
	return []setting{
		{"path", false, path{dst: &s.Path, base: base}},
		{"group", false, text{&s.Group, checkGroup}},
		{"mode", false, mode{&s.Mode}},
		{"max_connections", true, count(&s.MaxConnections, 1, MaxConnections)},
	}
}

func routeSettings(r *Route) []setting {
	return []setting{{"handler", true, text{&r.Handler, checkHandlerName}}}
}

// handlerSection depends on the handler's kind. A new kind is a new case here
// and a name in handlerKinds.
func handlerSection(h *Handler, base string) section {
	s := section{block: "handler", labels: []string{h.Kind, h.Name}}
	timeout := setting{"timeout_ms", true, duration(&h.Timeout, time.Millisecond, time.Millisecond, MaxHandlerTimeout)}
	switch h.Kind {
	case KindExec:
		s.settings = []setting{
			{"command", true, list{dst: &h.Command, atLeast: 1, atMost: maxArguments, check: checkCommand}},
			timeout,
			{"env", true, list{dst: &h.Env, atMost: maxEnv, check: checkEnvName}},
		}
	case KindHTTP:
		s.settings = []setting{
			{"url", true, text{&h.URL, checkURL}},
			timeout,
			{"authorization_file", true, secretPath{path{dst: &h.AuthorizationFile, base: base, optional: true}}},
			{"authorization_env", true, text{&h.AuthorizationEnv, checkSecretName}},
		}
	}
	return s
}

// handlerKinds are the first labels that a handler block may have.
func handlerKinds() []string { return []string{KindExec, KindHTTP} }

// newHandler is a handler block before its keys are read.
func newHandler(kind, name string) Handler {
	return Handler{Name: name, Kind: kind, Timeout: DefaultHandlerTimeout}
}

// required lists the keys that a block cannot be without.
func required(s section) []string {
	switch {
	case s.block == "handler" && s.labels[0] == KindExec:
		return []string{"command"}
	case s.block == "handler" && s.labels[0] == KindHTTP:
		return []string{"url"}
	}
	return nil
}
