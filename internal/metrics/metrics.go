package metrics

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"breakwater/queue"
)

const (
	// DefaultStatusWait is how long a scrape waits for the store's counts: well
	// below Prometheus' own limit of 10 s, so that the rest still arrives.
	DefaultStatusWait = 2 * time.Second

	// maxScrapes bounds the scrapes under way at once; more are answered 503.
	maxScrapes = 4
)

// Options says what a Metrics shows besides what it is told. All may be left out.
type Options struct {
	Version string

	// Status returns the store's counts; nil: those families are absent. It is
	// asked at most once per scrape, by one goroutine at a time.
	Status     func(ctx context.Context, now time.Time) (queue.StoreStatus, error)
	StatusWait time.Duration // 0: DefaultStatusWait

	// Sockets returns the counts of each socket's connections, by its name in the
	// configuration. The names fix the series; the functions must not block.
	Sockets map[string]func() Connections

	// Consumers returns how many consumers are attached; nil: none ever are.
	Consumers func() int

	// Available reports whether a route has a handler in this process, and whether
	// that one may be used; nil: no route has one. It must not block.
	Available func(route queue.Route) (up, inProcess bool)

	// Health returns what the core says of itself, given the store's counts at a moment;
	// nil: those families are absent. It must not block.
	Health func(st *queue.StoreStatus, at time.Time) Health

	// StreamSkipped returns how many records the audit stream has left out so far;
	// nil: none, as there is no stream.
	StreamSkipped func() uint64

	// Checkpoints returns how the signed checkpoints are doing; nil: there are none.
	Checkpoints func() Checkpoints

	Now func() time.Time // nil: time.Now
}

// Checkpoints are the signed heads of the trail.
type Checkpoints struct {
	Written, Failed uint64
	Records         uint64    // that the newest one covers; 0: there is none yet
	At              time.Time // when it was signed
}

// Connections is what happened on a socket so far, and what is open now.
type Connections struct {
	Open                      int
	Accepted, Refused, Failed uint64
}

// Metrics counts. Its methods may be called from several goroutines; none blocks or
// allocates. Make one with New.
type Metrics struct {
	now      func() time.Time
	registry *prometheus.Registry

	lines         []prometheus.Counter // by statusIndex
	admit, settle prometheus.Histogram
	deliveries    []prometheus.Counter // by routeIndex, as the next three
	redeliveries  []prometheus.Counter
	queued        []prometheus.Observer
	handled       []prometheus.Observer
	answers       [][]prometheus.Counter // by routeIndex, verbIndex
	settlements   []prometheus.Counter   // by resultIndex
	raised        []prometheus.Counter   // by codeIndex
	dropped       prometheus.Counter
	expired       prometheus.Counter
	trimmed       prometheus.Counter
	copied        prometheus.Counter
	unexpired     prometheus.Counter
}

// New returns a Metrics with a registry of its own, all its series at zero.
func New(o Options) *Metrics {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.StatusWait <= 0 {
		o.StatusWait = DefaultStatusWait
	}
	m := &Metrics{now: o.Now, registry: prometheus.NewRegistry()}
	lines, deliveries, redeliveries := m.counterVec(linesTotal), m.counterVec(deliveriesTotal), m.counterVec(redeliveriesTotal)
	m.lines, m.deliveries, m.redeliveries = counters(lines, statuses), counters(deliveries, routes), counters(redeliveries, routes)
	m.settlements, m.raised = counters(m.counterVec(settlementsTotal), results), counters(m.counterVec(raisedTotal), codes)
	m.queued, m.handled = histograms(m.histogramVec(queueSeconds), routes), histograms(m.histogramVec(handlerSeconds), routes)
	answers := m.counterVec(answersTotal)
	for _, route := range routes {
		m.answers = append(m.answers, counters(answers, verbs, route))
	}
	m.admit, m.settle = m.histogram(admitSeconds), m.histogram(settleSeconds)
	m.dropped = m.counter(receiptsDroppedTotal)
	m.expired, m.unexpired = m.counter(keysExpiredTotal), m.counter(retentionFailuresTotal)
	m.trimmed, m.copied = m.counter(recordsTrimmedTotal), m.counter(recordsCopiedTotal)
	m.registry.MustRegister(
		newStatusCollector(o), newEdgeCollector(o),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler serves a scrape, in the text format or what the scraper prefers.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		ErrorHandling:       promhttp.ContinueOnError, // a part that fails hides nothing else
	})
}

// Lines: so many lines were answered with this status. Each line has one answer,
// however often the store was asked for room.
func (m *Metrics) Lines(status queue.Status, n int) {
	m.lines[statusIndex(status)].Add(float64(max(n, 0)))
}

// Admitted: the store answered lines, after so long a call.
func (m *Metrics) Admitted(_ []queue.Receipt, took time.Duration) { m.admit.Observe(took.Seconds()) }

// Claimed: deliveries were handed to one owner just now.
func (m *Metrics) Claimed(deliveries []queue.Delivery) {
	now := m.now()
	for i := range deliveries {
		d := &deliveries[i]
		r := routeIndex(d.Route)
		m.deliveries[r].Inc()
		if d.Redelivered {
			m.redeliveries[r].Inc()
			continue // its time in the queue was counted, and is a backoff now
		}
		m.queued[r].Observe(max(now.Sub(d.AcceptedAt), 0).Seconds())
	}
}

// Handled: a handler answered a delivery after so long.
func (m *Metrics) Handled(d *queue.Delivery, a *queue.Answer, took time.Duration) {
	m.handled[routeIndex(d.Route)].Observe(took.Seconds())
	m.answers[routeIndex(d.Route)][verbIndex(a.Verb, a.Unavailable)].Inc()
}

// Answered: a consumer answered a delivery. It is Handled without the time, which is
// a person's and not a program's.
func (m *Metrics) Answered(route queue.Route, verb queue.Verb) {
	m.answers[routeIndex(route)][verbIndex(verb, false)].Inc()
}

// Settled: the store took answers, after so long a call.
func (m *Metrics) Settled(settled []queue.SettleResult, took time.Duration) {
	for i := range settled {
		m.settlements[resultIndex(settled[i].Code)].Inc()
	}
	m.settle.Observe(took.Seconds())
}

// Raised: a code was raised. The route is not a label here: the log line names it,
// and CONSUMER_LAG has breakwater_oldest_ready_seconds.
func (m *Metrics) Raised(code queue.Code, _ queue.Route) { m.raised[codeIndex(code)].Inc() }

// Expired: the store took a step of retention, or could not.
func (m *Metrics) Expired(did queue.ExpireResult, err error) {
	if err != nil {
		m.unexpired.Inc()
		return
	}
	m.expired.Add(float64(max(did.Keys, 0)))
}

// Trimmed: the store took a step of trimming, or could not.
func (m *Metrics) Trimmed(did queue.TrimResult, err error) {
	if err != nil {
		m.unexpired.Inc()
		return
	}
	m.trimmed.Add(float64(max(did.Records, 0)))
	m.copied.Add(float64(max(did.Copies, 0)))
}

// ReceiptsDropped: so many receipts were not sent, as their producer did not read.
func (m *Metrics) ReceiptsDropped(n int) { m.dropped.Add(float64(max(n, 0))) }

// The functions below make a family from its row in the table and register it. Two
// rows of one name would be refused by the registry: a mistake of ours that no test
// run can miss, as New makes all of them.

func (m *Metrics) counter(d Description) prometheus.Counter {
	return m.counterVec(d).WithLabelValues()
}

func (m *Metrics) histogram(d Description) prometheus.Histogram {
	return m.histogramVec(d).WithLabelValues().(prometheus.Histogram)
}

func (m *Metrics) counterVec(d Description) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histogramVec(d Description) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Bounds}, d.Labels)
	m.registry.MustRegister(v)
	return v
}
