// Package metrics counts what breakwater does, for Prometheus. It decides nothing
// and reaches into nothing: the core tells a [Metrics] what happened, through
// methods that fit the dispatcher's observer, and a scrape asks for the store's
// counts through a function.
//
// # Names
//
// Every family is in one table, [Names], with its help and its labels; the table is
// what the families are made from, so documents and dashboards can be checked
// against it. Names begin with breakwater_, units are base units (seconds, bytes),
// counters end in _total. The runtime's own families (go_*, process_*) are beside
// them.
//
// # Labels
//
// The number of series is fixed when a Metrics is made, by the configuration and
// never by traffic: a partition key, a trace id or an error's text as a label would
// be one series each, for ever. What has a label has it from a closed list, and
// everything else counts as "other". All series exist from the start at zero, so
// that a rate over the first event is not lost; but for amounts, of which a currency
// has series while something is at risk in it.
//
// # Scrapes
//
// A scrape reads one status of the store, under a deadline: while the store does not
// answer, the counters are still served, breakwater_store_up is 0 and the families
// that come from the status are absent, instead of being old.
package metrics
