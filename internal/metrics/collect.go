package metrics

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"breakwater/queue"
)

// describe makes the family of a row whose values are read at each scrape.
func describe(d Description) *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}

// family is a Desc with its kind.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func familyOf(d Description) family {
	f := family{desc: describe(d), kind: prometheus.GaugeValue}
	if d.Kind == Counter {
		f.kind = prometheus.CounterValue
	}
	return f
}

// emit sends one series. Its label values are as many as the row has labels.
func (f family) emit(ch chan<- prometheus.Metric, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// statusCollector shows the store's counts. Concurrent scrapes share one reading, and
// a store that hangs is asked by one goroutine only, however often it is scraped.
type statusCollector struct {
	options Options

	up, exceptions, ended, quarantined, oldest    family
	damaged, damagedSegments                      family
	openKeys, heldKeys, ledgerKeys, seqs, records family
	fileBytes, freeBytes, diskFree, paused        family
	risk                                          riskFamilies
	health                                        healthFamilies
	archive                                       archiveFamilies

	mu      sync.Mutex
	reading *reading // under way; nil: none
}

// reading is one call of Status; done is closed when st and err are there.
type reading struct {
	done chan struct{}
	at   time.Time
	st   queue.StoreStatus
	err  error
}

func newStatusCollector(o Options) *statusCollector {
	return &statusCollector{
		options: o,
		up:      familyOf(storeUp), exceptions: familyOf(exceptions), ended: familyOf(endedTotal),
		quarantined: familyOf(quarantined), damaged: familyOf(damaged), damagedSegments: familyOf(damagedSegments), oldest: familyOf(oldestReady),
		openKeys: familyOf(openKeys), heldKeys: familyOf(heldKeys), ledgerKeys: familyOf(ledgerKeys),
		seqs: familyOf(seqsTotal), records: familyOf(recordsTotal),
		fileBytes: familyOf(storeFileBytes), freeBytes: familyOf(storeFreeBytes), diskFree: familyOf(diskFreeBytes), paused: familyOf(paused),
		risk: newRiskFamilies(), health: newHealthFamilies(), archive: newArchiveFamilies(),
	}
}

// Describe names the families.
func (c *statusCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range append(slices.Concat(c.risk.all(), c.health.all(), c.archive.all()),
		c.up, c.exceptions, c.ended, c.quarantined, c.damaged, c.damagedSegments, c.oldest, c.openKeys, c.heldKeys, c.ledgerKeys,
		c.seqs, c.records, c.fileBytes, c.freeBytes, c.diskFree, c.paused,
	) {
		ch <- f.desc
	}
}

// Collect reads the status once and sends what it says.
func (c *statusCollector) Collect(ch chan<- prometheus.Metric) {
	r, err := c.read()
	if err != nil {
		c.up.emit(ch, 0)
		return
	}
	st := &r.st
	c.up.emit(ch, 1)
	for _, s := range []struct {
		state queue.State
		n     int64
	}{
		{queue.Ready, st.Ready}, {queue.Scheduled, st.Scheduled}, {queue.Leased, st.Leased},
		{queue.Held, st.Held}, {queue.Dead, st.Dead},
	} {
		c.exceptions.emit(ch, float64(s.n), s.state.String())
	}
	c.ended.emit(ch, float64(st.Done), queue.Done.String())
	c.ended.emit(ch, float64(st.Discarded), queue.Discarded.String())
	c.quarantined.emit(ch, float64(st.Quarantined))
	c.damaged.emit(ch, float64(st.Damaged))
	c.damagedSegments.emit(ch, float64(st.DamagedSegments))
	for _, route := range queue.Routes {
		c.oldest.emit(ch, oldestAge(st, route, r.at).Seconds(), string(route))
	}
	c.openKeys.emit(ch, float64(st.OpenKeys))
	c.heldKeys.emit(ch, float64(st.HeldKeys))
	c.risk.emit(ch, st)
	c.ledgerKeys.emit(ch, float64(st.LedgerKeys))
	c.seqs.emit(ch, float64(st.LastSeq))
	c.records.emit(ch, float64(st.Records))
	c.archive.emit(ch, st)
	c.fileBytes.emit(ch, float64(st.FileBytes))
	c.freeBytes.emit(ch, float64(st.FreeBytes))
	if st.DiskFree >= 0 {
		c.diskFree.emit(ch, float64(st.DiskFree))
	}
	c.paused.emit(ch, truth(st.Paused != nil))
	if c.options.Health != nil {
		h := c.options.Health(st, r.at)
		c.health.emit(ch, &h)
	}
}

// oldestAge is the age of a route's oldest claimable message, 0 if it has none.
func oldestAge(st *queue.StoreStatus, route queue.Route, now time.Time) time.Duration {
	for i := range st.Oldest {
		if st.Oldest[i].Route == route {
			return max(now.Sub(st.Oldest[i].AcceptedAt), 0)
		}
	}
	return 0
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var errNoStatus = errors.New("the store's status could not be read in time")

// read waits for the reading under way, or for a new one, but not for ever.
func (c *statusCollector) read() (*reading, error) {
	if c.options.Status == nil {
		return nil, errNoStatus
	}
	r := c.current()
	limit := time.NewTimer(c.options.StatusWait)
	defer limit.Stop()
	select {
	case <-r.done:
		return r, r.err
	case <-limit.C:
		return nil, errNoStatus
	}
}

// current returns the reading under way, or begins one.
func (c *statusCollector) current() *reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading == nil {
		c.reading = &reading{done: make(chan struct{}), at: c.options.Now()}
		go c.finish(c.reading)
	}
	return c.reading
}

// finish makes the reading. It leaves when the store answers: the context ends the
// wait for a turn, but nothing ends a system call on a disk that hangs.
func (c *statusCollector) finish(r *reading) {
	ctx, cancel := context.WithTimeout(context.Background(), c.options.StatusWait)
	defer cancel()
	r.st, r.err = c.options.Status(ctx, r.at)
	c.mu.Lock()
	c.reading = nil
	c.mu.Unlock()
	close(r.done)
}

// edgeCollector shows what the other parts are asked for: sockets, consumers, the
// audit stream, the build.
type edgeCollector struct {
	options                                                 Options
	open, connections, consumers, available, skipped, build family
	checkpoints, covered, signed                            family
}

func newEdgeCollector(o Options) *edgeCollector {
	return &edgeCollector{
		options: o, open: familyOf(connections), connections: familyOf(connectionsTotal),
		consumers: familyOf(consumersAttached), available: familyOf(handlerAvailable), skipped: familyOf(streamSkippedTotal), build: familyOf(buildInfo),
		checkpoints: familyOf(checkpointsTotal), covered: familyOf(checkpointRecords), signed: familyOf(checkpointTime),
	}
}

// Describe names the families.
func (c *edgeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []family{c.open, c.connections, c.consumers, c.available, c.skipped, c.build, c.checkpoints, c.covered, c.signed} {
		ch <- f.desc
	}
}

// collectCheckpoints asks for the checkpoints.
func (c *edgeCollector) collectCheckpoints(ch chan<- prometheus.Metric) {
	var now Checkpoints
	if c.options.Checkpoints != nil {
		now = c.options.Checkpoints()
	}
	c.checkpoints.emit(ch, float64(now.Written), "written")
	c.checkpoints.emit(ch, float64(now.Failed), "failed")
	c.covered.emit(ch, float64(now.Records))
	at := 0.0
	if !now.At.IsZero() {
		at = float64(now.At.UnixMilli()) / 1000
	}
	c.signed.emit(ch, at)
}

// Collect asks each part.
func (c *edgeCollector) Collect(ch chan<- prometheus.Metric) {
	for socket, counts := range c.options.Sockets {
		n := counts()
		c.open.emit(ch, float64(n.Open), socket)
		c.connections.emit(ch, float64(n.Accepted), socket, "accepted")
		c.connections.emit(ch, float64(n.Refused), socket, "refused")
		c.connections.emit(ch, float64(n.Failed), socket, "failed")
	}
	attached := 0
	if c.options.Consumers != nil {
		attached = c.options.Consumers()
	}
	c.consumers.emit(ch, float64(attached))
	for _, route := range queue.Routes {
		if c.options.Available == nil {
			break
		}
		if up, inProcess := c.options.Available(route); inProcess {
			c.available.emit(ch, truth(up), string(route))
		}
	}
	skipped := uint64(0)
	if c.options.StreamSkipped != nil {
		skipped = c.options.StreamSkipped()
	}
	c.skipped.emit(ch, float64(skipped))
	c.collectCheckpoints(ch)
	c.build.emit(ch, 1, c.options.Version)
}
