package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"breakwater/queue"
)

// other is what everything counts as that is not on a label's list.
const other = "other"

// Values of the labels, each list ending in other where what comes may be unknown.
// Series are found by position: no map of strings is asked for each message.
var (
	statuses = []string{
		queue.Accepted.String(), queue.Duplicate.String(), queue.Conflict.String(),
		queue.Quarantined.String(), queue.Rejected.String(), other,
	}
	verbs   = []string{"ack", "retry", "release", "hold", "reject", "unavailable", other}
	results = []string{"applied", string(queue.CodeExpired), string(queue.CodeAlreadySettled), other}
	codes   = []string{
		string(queue.CodeSaturated), string(queue.CodeExpired), string(queue.CodePoison), string(queue.CodeConsumerLag),
		string(queue.CodeConflict), string(queue.CodeRejected), string(queue.CodeAttemptsExhausted), string(queue.CodeDeliveriesExhausted),
		string(queue.CodeHandlerUnavailable), string(queue.CodeAlreadySettled), string(queue.CodeNameInUse), string(queue.CodeIncompleteLine),
		string(queue.CodeDraining), string(queue.CodeStorageUnavailable), string(queue.CodeUsage), string(queue.CodeNotFound),
		string(queue.CodeInternal), other,
	}
	routes = func() (names []string) {
		for _, r := range queue.Routes {
			names = append(names, string(r))
		}
		return append(names, other)
	}()
)

// Positions in the lists.
const verbUnavailable = 5

func statusIndex(s queue.Status) int { return within(int(s)-1, len(statuses)) }

// verbIndex tells the unavailable from the released: the message was put back
// either way, but only one of them is trouble.
func verbIndex(v queue.Verb, unavailable bool) int {
	if unavailable {
		return verbUnavailable
	}
	if v > queue.Reject {
		return len(verbs) - 1
	}
	return within(int(v)-1, len(verbs))
}

func routeIndex(r queue.Route) int { return within(queue.RouteIndex(r), len(routes)) }

func resultIndex(c queue.Code) int {
	if c == "" {
		return 0
	}
	return indexOf(results[1:], string(c)) + 1
}

func codeIndex(c queue.Code) int { return indexOf(codes, string(c)) }

// within is i, or the last of n where i is not among them.
func within(i, n int) int {
	if i < 0 || i >= n {
		return n - 1
	}
	return i
}

// indexOf is the position of s in list, or the last. The lists are shorter than a
// map is fast.
func indexOf(list []string, s string) int {
	for i, known := range list {
		if known == s {
			return i
		}
	}
	return len(list) - 1
}

// counters makes one counter per value of the last label, after fixed values of the
// labels before it.
func counters(v *prometheus.CounterVec, values []string, before ...string) []prometheus.Counter {
	out := make([]prometheus.Counter, len(values))
	for i, value := range values {
		out[i] = v.WithLabelValues(append(before[:len(before):len(before)], value)...)
	}
	return out
}

// histograms is counters for histograms.
func histograms(v *prometheus.HistogramVec, values []string) []prometheus.Observer {
	out := make([]prometheus.Observer, len(values))
	for i, value := range values {
		out[i] = v.WithLabelValues(value)
	}
	return out
}
