package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// maxScrape bounds the metrics page. Its series are fixed in number: it is far below.
const maxScrape = 8 << 20

// Samples are the values of a metrics page, by series as the page writes it:
// breakwater_answers_total{route="AUTO_RESOLVE",verb="ack"}.
type Samples map[string]float64

// Metrics reads the series of some families off the metrics page, in Prometheus' text
// format. Values there are floats: no amount is to be read from it.
func (c *Control) Metrics(ctx context.Context, families ...string) (Samples, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	res, err := c.send(ctx, http.MethodGet, "/metrics", nil, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := readAtMost(res.Body, maxScrape)
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	return parseSamples(text, families)
}

var errSample = errors.New("a line of the metrics that is no sample")

// parseSamples reads a page: the series whose names begin with that of a family. A time
// behind a value is not ours, and left out.
func parseSamples(text []byte, families []string) (Samples, error) {
	s := Samples{}
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if !slices.ContainsFunc(families, func(f string) bool { return bytes.HasPrefix(line, []byte(f)) }) {
			continue
		}
		end := bytes.LastIndexByte(line, '}') + 1
		if end == 0 {
			end = max(0, bytes.IndexByte(line, ' '))
		}
		fields := bytes.Fields(line[end:])
		if end == 0 || len(fields) == 0 {
			return nil, fmt.Errorf("%w: %.80q", errSample, line)
		}
		value, err := measure(string(fields[0]))
		if err != nil {
			return nil, fmt.Errorf("%w: %.80q", errSample, line)
		}
		s[string(line[:end])] = value
	}
	return s, nil
}

// measure reads a value or a bound: a number as JSON has it, or one of the three that
// JSON has not.
func measure(text string) (value float64, err error) {
	switch text {
	case "+Inf":
		return math.Inf(1), nil
	case "-Inf":
		return math.Inf(-1), nil
	case "NaN":
		return math.NaN(), nil
	}
	return value, json.Unmarshal([]byte(text), &value)
}

// Quantile estimates a quantile (0 < q < 1) of a histogram that has one label besides
// its buckets' own, and says of how many observations. Within a bucket they count as
// spread evenly; what is above the last bound counts as that bound. NaN of none.
func (s Samples) Quantile(name, label, value string, q float64) (estimate float64, of int64) {
	type bucket struct{ bound, count float64 }
	var buckets []bucket
	want := label + "=" + strconv.Quote(value)
	for series, count := range s {
		labels, ok := strings.CutPrefix(series, name+"_bucket{")
		_, le, found := strings.Cut(labels, `le="`)
		if !ok || !found || !strings.Contains(labels, want) {
			continue
		}
		le, _, _ = strings.Cut(le, `"`)
		if bound, err := measure(le); err == nil {
			buckets = append(buckets, bucket{bound, count})
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.bound, b.bound) })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return math.NaN(), 0
	}
	total := buckets[len(buckets)-1].count
	rank, below := q*total, bucket{}
	for _, b := range buckets {
		if math.IsInf(b.bound, 1) {
			break
		}
		if b.count >= rank {
			return below.bound + (b.bound-below.bound)*(rank-below.count)/(b.count-below.count), int64(total)
		}
		below = b
	}
	return below.bound, int64(total)
}
