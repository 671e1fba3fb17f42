package control

import (
	"context"
	"net"
	"net/http"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// Server answers operators on control.sock. Make one with New.
type Server struct {
	site   site
	o      Options
	prober prober
	turn   chan struct{} // holds a value while a verification runs
}

// New returns a Server. The error names the option that is wrong.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, turn: make(chan struct{}, 1), prober: prober{probe: o.Store.Probe, now: o.Now}}
	s.site = site{log: o.Log, routes: newRoutes(s.endpoints())}
	if o.Peer != nil {
		s.site.peer = func(c net.Conn) any { return o.Peer(c) }
	}
	return s, nil
}

// Serve answers connections of l until ctx ends; then it lets requests under way
// finish, ends streams, closes l and returns nil. It returns the error of accept if
// that ended it. How many connections there may be is the listener's to limit.
func (s *Server) Serve(ctx context.Context, l net.Listener) error { return s.site.serve(ctx, l) }

// endpoints is everything that can be asked.
func (s *Server) endpoints() []endpoint {
	const get, post = http.MethodGet, http.MethodPost
	all := []endpoint{
		{get, "/healthz", nil, healthz(s.o.Version)},
		{get, "/readyz", nil, s.readyz},
		{get, "/v1/status", nil, s.status},
		{get, "/v1/exceptions", []string{"after", "limit", "lines", "state", "partition_key", "idempotency_key", "trace_id"}, s.exceptions},
		{get, "/v1/exceptions" + seqPart, nil, s.exception},
		{get, "/v1/exceptions" + seqPart + "/why", nil, s.whyException},
		{get, "/v1/keys", []string{"after", "limit", "state"}, s.listKeys},
		{get, "/v1/keys/why", []string{"key"}, s.whyKey},
		{get, "/v1/dead-letters", append([]string{"limit", "lines"}, letterKeys...), s.deadLetters},
		{get, "/v1/dead-letters/groups", letterKeys, s.letterGroups},
		{get, "/v1/dead-letters" + seqPart, nil, s.deadLetter},
		{get, "/v1/leases", []string{"after", "limit", "owner"}, s.leases},
		{get, "/v1/audit", []string{"after_n", "seq", "trace_id", "partition_key", "idempotency_key", "event", "since", "until", "limit"}, s.audit},
		{post, "/v1/audit/verify", nil, s.verify},
		{post, "/v1/pause", nil, s.pause},
		{post, "/v1/resume", nil, s.resume},
		{post, "/v1/drain", nil, s.drain},
		{post, "/v1/reload", nil, s.reload},
		{post, "/v1/archive", nil, s.archive},
		{get, "/v1/archive", nil, s.archiving},
		{post, "/v1/dead-letters/replay", nil, s.replay},
		{post, "/v1/dead-letters/discard", nil, s.discard},
		{post, "/v1/dead-letters/edit", nil, s.edit},
		{post, "/v1/keys/hold", nil, s.holdKeys},
		{post, "/v1/keys/release", nil, s.releaseKeys},
		{post, "/v1/leases/revoke", nil, s.revoke},
	}
	if s.o.Metrics != nil {
		all = append(all, endpoint{get, "/metrics", nil, page(s.o.Metrics)})
	}
	return all
}

// healthz says that the process answers. It asks nothing of the store: a process
// whose disk hangs is alive, and a restart would not mend the disk.
func healthz(version string) func(*exchange) error {
	return func(x *exchange) error { return x.ok(api.Health{Status: "ok", Version: version}) }
}

// page hands a request on to a handler that answers for itself.
func page(h http.Handler) func(*exchange) error {
	return func(x *exchange) error {
		x.begun = true
		h.ServeHTTP(x.w, x.r)
		return nil
	}
}

// Refusal is what a connection over the listener's limit is sent: the problem, as an
// answer to a request that nobody has read.
func Refusal() []byte {
	return bareAnswer(&problem{
		status: http.StatusServiceUnavailable, code: queue.CodeSaturated, retry: 1,
		detail: "too many connections are open", hint: `try again, or raise max_connections of socket "control"`,
	})
}

// status answers with the counts.
func (s *Server) status(x *exchange) error {
	now := s.o.Now()
	st, err := s.o.Store.Status(x.r.Context(), now)
	if err != nil {
		return err
	}
	ready := s.o.Ready(&st, now)
	doc := statusOf(&st, now)
	doc.Consumers, doc.Draining = ready.Consumers, ready.Draining
	doc.Unavailable, doc.Routes, doc.Recent = ready.outages(), ready.routes(), ready.recent()
	if s.o.Checkpoint != nil {
		if c := s.o.Checkpoint(); c != nil {
			doc.Checkpoint = c.doc()
		}
	}
	if !s.o.Started.IsZero() { // a file alone takes no lines
		doc.Intake = ready.intake()
	}
	doc.Version, doc.StartedAt = s.o.Version, api.Time{Time: s.o.Started}
	return x.ok(doc)
}

// statusOf is a store's status as the API shows it.
func statusOf(st *queue.StoreStatus, now time.Time) api.Status {
	doc := api.Status{
		Ready: st.Ready, Scheduled: st.Scheduled, Leased: st.Leased, Held: st.Held,
		Done: st.Done, Dead: st.Dead, Discarded: st.Discarded, Quarantined: st.Quarantined,
		OpenKeys: st.OpenKeys, HeldKeys: st.HeldKeys, LedgerKeys: st.LedgerKeys, LastSeq: st.LastSeq, Damaged: st.Damaged, DamagedSegments: st.DamagedSegments,
		BlockedKeys: st.BlockedKeys, OperatorHolds: st.OperatorHolds, DeadUnvalued: st.DeadUnvalued,
		DeadByCode: map[string]int64{}, AtRisk: []api.AtRisk{},
		Ages:   api.Ageing{Open: api.Ages(st.OpenAges), Dead: api.Ages(st.DeadAges)},
		Paused: pauseOf(st.Paused), Oldest: []api.Oldest{},
		Audit: api.Audit{Block: st.Head.Block, Head: st.Head.Hash.String(), Records: st.Records, Origin: st.Origin},
		Store: api.Store{FileBytes: st.FileBytes, FreeBytes: st.FreeBytes}, Now: api.Time{Time: now},
	}
	if st.Opening.Record != 0 {
		doc.Audit.FirstRecord = st.Opening.LastN + 1
	}
	if st.ArchivedN > 0 {
		doc.Archived = &api.Archived{Block: st.ArchivedBlock, Records: st.ArchivedN, At: api.Time{Time: st.ArchivedAt}}
	}
	for code, n := range st.DeadByCode {
		doc.DeadByCode[string(code)] = n
	}
	for _, r := range st.AtRisk {
		doc.AtRisk = append(doc.AtRisk, api.AtRisk(r))
	}
	for _, o := range st.Oldest {
		doc.Oldest = append(doc.Oldest, api.Oldest{
			Route: string(o.Route), AcceptedAt: api.Time{Time: o.AcceptedAt},
			AgeMS: max(now.Sub(o.AcceptedAt), 0).Milliseconds(), // a clock that was set back makes nothing younger than new
			Seq:   o.Message.Seq, TraceID: o.Message.TraceID, PartitionKey: o.Message.PartitionKey,
		})
	}
	return doc
}
