package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"breakwater/queue"
)

// Health is what the core says of itself beside the store's counts.
type Health struct {
	Draining  bool
	Waiting   int              // producers whose lines wait for room
	Saturated queue.Saturation // the limit that new lines meet; "": none
	Stuck     []queue.Route    // in-process routes that have work and settle nothing
	Limits    queue.Limits     // in force
}

// limits are the limits on what is stored, in the order of the configuration.
var limits = []queue.Saturation{
	queue.FullBacklog, queue.FullOpenKeys, queue.FullDeadLetters, queue.FullLedger, queue.FullStore, queue.FullDisk,
}

// limitOf is the value of a limit; zero: there is none.
func limitOf(l *queue.Limits, of queue.Saturation) int64 {
	switch of {
	case queue.FullBacklog:
		return l.MaxBacklog
	case queue.FullOpenKeys:
		return l.MaxOpenKeys
	case queue.FullDeadLetters:
		return l.MaxDeadLetters
	case queue.FullLedger:
		return l.MaxLedgerKeys
	case queue.FullStore:
		return l.MaxStoreBytes
	}
	return l.MinFreeBytes
}

// healthFamilies show whether work is taken in and gets done.
type healthFamilies struct {
	draining, waiting, saturated, stuck, limit family
}

func newHealthFamilies() healthFamilies {
	return healthFamilies{
		draining: familyOf(draining), waiting: familyOf(producersWaiting), saturated: familyOf(saturated),
		stuck: familyOf(routeStuck), limit: familyOf(limit),
	}
}

// all lists the families.
func (f *healthFamilies) all() []family {
	return []family{f.draining, f.waiting, f.saturated, f.stuck, f.limit}
}

// emit sends what the core says.
func (f *healthFamilies) emit(ch chan<- prometheus.Metric, h *Health) {
	f.draining.emit(ch, truth(h.Draining))
	f.waiting.emit(ch, float64(h.Waiting))
	for _, one := range limits {
		f.saturated.emit(ch, truth(h.Saturated == one), string(one))
		f.limit.emit(ch, float64(limitOf(&h.Limits, one)), string(one))
	}
	for _, route := range queue.Routes {
		f.stuck.emit(ch, truth(slices.Contains(h.Stuck, route)), string(route))
	}
}

// archiveFamilies show what is kept elsewhere, and what may be let go of.
type archiveFamilies struct {
	first, archived, at family
}

func newArchiveFamilies() archiveFamilies {
	return archiveFamilies{first: familyOf(firstRecord), archived: familyOf(archivedRecords), at: familyOf(archiveTime)}
}

// all lists the families.
func (f *archiveFamilies) all() []family { return []family{f.first, f.archived, f.at} }

// emit sends what a status says.
func (f *archiveFamilies) emit(ch chan<- prometheus.Metric, st *queue.StoreStatus) {
	f.first.emit(ch, float64(st.Opening.LastN+1))
	f.archived.emit(ch, float64(st.ArchivedN))
	at := 0.0
	if !st.ArchivedAt.IsZero() {
		at = float64(st.ArchivedAt.UnixMicro()) / 1e6
	}
	f.at.emit(ch, at)
}
