package control

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// query is a request's query: every key known, none twice, no value empty. A typing
// error must not quietly select everything.
type query map[string]string

// parseQuery reads the raw query.
func parseQuery(raw string, known []string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, usage("the query cannot be read: percent-encode its values")
	}
	q := query{}
	for key, all := range values {
		switch {
		case !slices.Contains(known, key):
			return nil, usage("the query's key %s is not known here", excerpt(key))
		case len(all) > 1:
			return nil, usage("the query's key %s comes %d times", excerpt(key), len(all))
		case all[0] == "":
			return nil, usage("the query's key %s has no value", excerpt(key))
		}
		q[key] = all[0]
	}
	return q, nil
}

// maxExcerpt bounds what an answer repeats of a request, in bytes.
const maxExcerpt = 64

// excerpt quotes the beginning of what a request holds.
func excerpt(s string) string { return queue.Quote(s, maxExcerpt) }

// number reads a number from least to most; without the key it is otherwise.
func (q query) number(key string, least, most, otherwise uint64) (uint64, error) {
	text, ok := q[key]
	if !ok {
		return otherwise, nil
	}
	n, ok := parseNumber(text)
	if !ok || n < least || n > most {
		return 0, usage("%s must be a whole number from %d to %d", key, least, most)
	}
	return n, nil
}

// parseNumber takes one spelling of a number: no sign, no leading zero.
func parseNumber(s string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == s
}

// most is the largest number that JSON's readers agree on.
const most = 1<<53 - 1

// page reads where a page begins and how long it may be.
func (q query) page() (after uint64, limit int, err error) {
	if after, err = q.number("after", 0, most, 0); err != nil {
		return 0, 0, err
	}
	n, err := q.number("limit", 1, api.MaxLimit, defaultLimit)
	return after, int(n), err
}

// time reads a moment; zero without the key.
func (q query) time(key string) (time.Time, error) {
	text, ok := q[key]
	if !ok {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usage("%s must be a time like 2026-01-02T15:04:05Z", key)
	}
	return t, nil
}

// truth reads true or false.
func (q query) truth(key string, otherwise bool) (bool, error) {
	switch q[key] {
	case "":
		return otherwise, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, usage("%s must be true or false", key)
}

// state reads one of the states of an exception that is in a list; 0 without the key.
func (q query) state(key string) (queue.State, error) {
	text, ok := q[key]
	if !ok {
		return 0, nil
	}
	for _, s := range [...]queue.State{queue.Ready, queue.Scheduled, queue.Leased, queue.Held} {
		if s.String() == text {
			return s, nil
		}
	}
	return 0, usage("%s must be ready, scheduled, leased or held", key)
}
