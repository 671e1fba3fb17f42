package metrics

// Kind is what sort of family it is, as Prometheus spells it.
type Kind string

// The three kinds in use.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Description is one family: what is promised to dashboards and alerts. A name
// never changes its meaning.
type Description struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string
	Unit   string    // base unit; empty for plain counts
	Bounds []float64 // Histogram: upper bounds of its buckets, in Unit
}

// Bounds of the histograms, in seconds. A store call is a commit or waits for one:
// from a fast disk's half millisecond to a disk in trouble. A handler may be a
// person's program: up to minutes. The time in the queue goes up to days.
var (
	callBounds    = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
	handlerBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300}
	queueBounds   = []float64{.001, .01, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
)

// What the core tells.
var (
	linesTotal = Description{Name: "breakwater_lines_total", Kind: Counter, Labels: []string{"status"},
		Help: "Lines answered at the door, by the status of their receipt."}
	admitSeconds = Description{Name: "breakwater_admit_seconds", Kind: Histogram, Unit: "seconds", Bounds: callBounds,
		Help: "How long the store took to answer a batch of lines, commit included."}
	settleSeconds = Description{Name: "breakwater_settle_seconds", Kind: Histogram, Unit: "seconds", Bounds: callBounds,
		Help: "How long the store took to settle a batch of answers, commit included."}
	queueSeconds = Description{Name: "breakwater_queue_seconds", Kind: Histogram, Unit: "seconds", Bounds: queueBounds, Labels: []string{"route"},
		Help: "From acceptance to the first delivery, of each exception that is delivered for the first time."}
	handlerSeconds = Description{Name: "breakwater_handler_seconds", Kind: Histogram, Unit: "seconds", Bounds: handlerBounds, Labels: []string{"route"},
		Help: "How long a handler took to answer a delivery."}
	deliveriesTotal = Description{Name: "breakwater_deliveries_total", Kind: Counter, Labels: []string{"route"},
		Help: "Deliveries handed out."}
	redeliveriesTotal = Description{Name: "breakwater_redeliveries_total", Kind: Counter, Labels: []string{"route"},
		Help: "Deliveries that a former holder may have seen."}
	answersTotal = Description{Name: "breakwater_answers_total", Kind: Counter, Labels: []string{"route", "verb"},
		Help: "Answers to deliveries, by what they asked for; unavailable: the handler could not be had."}
	settlementsTotal = Description{Name: "breakwater_settlements_total", Kind: Counter, Labels: []string{"result"},
		Help: "Answers as the store took them: applied, or why they changed nothing."}
	raisedTotal = Description{Name: "breakwater_raised_total", Kind: Counter, Labels: []string{"code"},
		Help: "Codes raised; each was logged with the ids of the exception it concerns."}
	keysExpiredTotal = Description{Name: "breakwater_ledger_keys_expired_total", Kind: Counter,
		Help: "Settled idempotency keys that retention has forgotten."}
	recordsTrimmedTotal = Description{Name: "breakwater_audit_records_trimmed_total", Kind: Counter,
		Help: "Records that retention has removed from the audit trail, copied ones included."}
	recordsCopiedTotal = Description{Name: "breakwater_audit_records_copied_total", Kind: Counter,
		Help: "Records that were copied when they were trimmed, as what they tell still holds."}
	retentionFailuresTotal = Description{Name: "breakwater_retention_failures_total", Kind: Counter,
		Help: "Steps of retention that could do nothing; each is tried again."}
	receiptsDroppedTotal = Description{Name: "breakwater_receipts_dropped_total", Kind: Counter,
		Help: "Receipts not sent, as their producer did not read; its lines were stored."}
	checkpointsTotal = Description{Name: "breakwater_checkpoints_total", Kind: Counter, Labels: []string{"result"},
		Help: "Signed heads of the trail that were written to their output, or could not be."}
	checkpointRecords = Description{Name: "breakwater_checkpoint_records", Kind: Gauge,
		Help: "Records that the newest signed head covers; those after it are proven by none yet. 0: there is none."}
	checkpointTime = Description{Name: "breakwater_checkpoint_timestamp_seconds", Kind: Gauge, Unit: "seconds",
		Help: "When the newest signed head was signed, in Unix time; 0: there is none."}
	streamSkippedTotal = Description{Name: "breakwater_stream_skipped_total", Kind: Counter,
		Help: "Records that the audit stream left out, as its reader was too slow; they are in the file."}
)

// What the store's status says, read at each scrape.
var (
	storeUp = Description{Name: "breakwater_store_up", Kind: Gauge,
		Help: "1 while the store answers a scrape in time; at 0 the families read from it are absent."}
	exceptions = Description{Name: "breakwater_exceptions", Kind: Gauge, Labels: []string{"state"},
		Help: "Exceptions now, by state. Ready, scheduled, leased and held together are the backlog."}
	endedTotal = Description{Name: "breakwater_ended_total", Kind: Counter, Labels: []string{"state"},
		Help: "Exceptions that ended, since the store was made: done or discarded."}
	damaged = Description{Name: "breakwater_damaged", Kind: Gauge,
		Help: "Exceptions of which what is stored cannot be read; each holds its key. Anything but 0 is a disk in trouble."}
	damagedSegments = Description{Name: "breakwater_ledger_damaged_segments", Kind: Gauge,
		Help: "Segments of the idempotency ledger with a block that could not be read; lines whose key may be there are rejected. Anything but 0 is a disk in trouble."}
	quarantined = Description{Name: "breakwater_quarantined", Kind: Gauge,
		Help: "Dead letters that are lines a gate refused."}
	oldestReady = Description{Name: "breakwater_oldest_ready_seconds", Kind: Gauge, Unit: "seconds", Labels: []string{"route"},
		Help: "Age of the oldest claimable exception; 0 when there is none."}
	openKeys = Description{Name: "breakwater_open_keys", Kind: Gauge,
		Help: "Partition keys with open exceptions."}
	heldKeys = Description{Name: "breakwater_held_keys", Kind: Gauge,
		Help: "Partition keys with open exceptions that wait: backoff, hold, dead letter, operator."}
	blockedKeys = Description{Name: "breakwater_blocked_keys", Kind: Gauge,
		Help: "Partition keys that wait for a dead letter, with open exceptions or without."}
	operatorHolds = Description{Name: "breakwater_operator_holds", Kind: Gauge,
		Help: "Partition keys that operators hold, with open exceptions or without."}
	amountAtRisk = Description{Name: "breakwater_amount_at_risk", Kind: Gauge, Labels: []string{"state", "currency"},
		Help: "Sum of the amounts of exceptions without their signs, in main units of the currency: open, of them held, and dead. " +
			"A sample is a float; the exact sum is in the status."}
	ages = Description{Name: "breakwater_exceptions_by_age", Kind: Gauge, Labels: []string{"state", "age"},
		Help: "Open exceptions and dead letters, by the time since they were accepted first."}
	deadByCode = Description{Name: "breakwater_dead_letters", Kind: Gauge, Labels: []string{"code"},
		Help: "Dead letters by what made them one."}
	ledgerKeys = Description{Name: "breakwater_ledger_keys", Kind: Gauge,
		Help: "Idempotency keys remembered."}
	seqsTotal = Description{Name: "breakwater_seqs_total", Kind: Counter,
		Help: "Lines stored since the store was made: the last seq."}
	recordsTotal = Description{Name: "breakwater_audit_records_total", Kind: Counter,
		Help: "Records in the audit trail since the store was made."}
	firstRecord = Description{Name: "breakwater_audit_first_record", Kind: Gauge,
		Help: "Number of the first record that the audit trail still has."}
	storeFileBytes = Description{Name: "breakwater_store_file_bytes", Kind: Gauge, Unit: "bytes",
		Help: "Size of the store's file."}
	storeFreeBytes = Description{Name: "breakwater_store_free_bytes", Kind: Gauge, Unit: "bytes",
		Help: "Room inside the store's file that will be used again."}
	diskFreeBytes = Description{Name: "breakwater_disk_free_bytes", Kind: Gauge, Unit: "bytes",
		Help: "Free on the disk of the store's file, beside the room inside it; absent where that is not known."}
	archivedRecords = Description{Name: "breakwater_archived_records", Kind: Gauge,
		Help: "Number of the last record that an archive holds; 0: none does."}
	archiveTime = Description{Name: "breakwater_archive_timestamp_seconds", Kind: Gauge, Unit: "seconds",
		Help: "When the archive was made that reaches furthest, in seconds since 1970; 0: there is none."}
	draining = Description{Name: "breakwater_draining", Kind: Gauge,
		Help: "1 while the process ends: nothing new is taken or handed out."}
	producersWaiting = Description{Name: "breakwater_producers_waiting", Kind: Gauge,
		Help: "Producers whose lines wait for room."}
	saturated = Description{Name: "breakwater_saturated", Kind: Gauge, Labels: []string{"limit"},
		Help: "1 for the limit that new lines meet now, else 0."}
	limit = Description{Name: "breakwater_limit", Kind: Gauge, Labels: []string{"limit"},
		Help: "The limits in force, each in what it counts; 0: there is none."}
	routeStuck = Description{Name: "breakwater_route_stuck", Kind: Gauge, Labels: []string{"route"},
		Help: "1 while an in-process route has claimable work and has settled nothing for consumer_lag_s."}
	paused = Description{Name: "breakwater_paused", Kind: Gauge,
		Help: "1 while an operator has paused deliveries."}
)

// What other parts are asked at each scrape.
var (
	connections = Description{Name: "breakwater_connections", Kind: Gauge, Labels: []string{"socket"},
		Help: "Open connections."}
	connectionsTotal = Description{Name: "breakwater_connections_total", Kind: Counter, Labels: []string{"socket", "result"},
		Help: "Connections accepted, refused over a limit, or failed to be accepted."}
	consumersAttached = Description{Name: "breakwater_consumers", Kind: Gauge,
		Help: "Consumers attached."}
	handlerAvailable = Description{Name: "breakwater_handler_available", Kind: Gauge, Labels: []string{"route"},
		Help: "0 while the handler of an in-process route could not be had when it was last tried, else 1."}
	buildInfo = Description{Name: "breakwater_build_info", Kind: Gauge, Labels: []string{"version"},
		Help: "1; the version of the running program."}
)

// Names lists every family, in the order in which documents show them.
func Names() []Description {
	return []Description{
		linesTotal, admitSeconds, deliveriesTotal, redeliveriesTotal, queueSeconds, handlerSeconds,
		answersTotal, settlementsTotal, settleSeconds, raisedTotal, keysExpiredTotal, recordsTrimmedTotal, recordsCopiedTotal, retentionFailuresTotal, receiptsDroppedTotal, streamSkippedTotal,
		checkpointsTotal, checkpointRecords, checkpointTime,
		storeUp, exceptions, endedTotal, quarantined, damaged, damagedSegments, oldestReady, openKeys, heldKeys, blockedKeys, operatorHolds, amountAtRisk, ages, deadByCode, ledgerKeys, seqsTotal, recordsTotal, firstRecord,
		archivedRecords, archiveTime, storeFileBytes, storeFreeBytes, diskFreeBytes, draining, producersWaiting, saturated, limit, routeStuck, paused,
		connections, connectionsTotal, consumersAttached, handlerAvailable, buildInfo,
	}
}
