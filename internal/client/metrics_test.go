package client

import (
	"errors"
	"math"
	"testing"
)

const scrape = `# HELP h_seconds How long.
# TYPE h_seconds histogram
h_seconds_bucket{route="A",le="1"} 50
h_seconds_bucket{route="A",le="10"} 98
h_seconds_bucket{route="A",le="30"} 100
h_seconds_bucket{route="A",le="+Inf"} 100
h_seconds_sum{route="A"} 5e+02
h_seconds_count{route="A"} 100
h_seconds_bucket{route="B",le="1"} 0
h_seconds_bucket{route="B",le="+Inf"} 4
h_seconds_bucket{route="C",le="1"} 0
h_seconds_bucket{route="C",le="+Inf"} 0
odd{text="a } b"} 7 1700000000000
process_max_fds 1.048576e+06
amount{currency="EUR"} 12.5
`

func TestSamples(t *testing.T) {
	s, err := parseSamples([]byte(scrape), []string{"h_seconds", "odd", "process_max_fds"})
	if err != nil {
		t.Fatal(err)
	}
	if s["process_max_fds"] != 1<<20 || s[`odd{text="a } b"}`] != 7 || s[`h_seconds_sum{route="A"}`] != 500 || len(s) != 12 {
		t.Errorf("%v", s)
	}
	for _, c := range []struct {
		route string
		q     float64
		want  float64
		of    int64
	}{
		{"A", .99, 20, 100}, // half way between 98 and 100
		{"A", .25, .5, 100},
		{"B", .99, 1, 4}, // above the last bound
		{"C", .99, math.NaN(), 0},
		{"D", .99, math.NaN(), 0},
	} {
		got, of := s.Quantile("h_seconds", "route", c.route, c.q)
		if of != c.of || got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s %v: %v of %d, want %v of %d", c.route, c.q, got, of, c.want, c.of)
		}
	}
	for _, bad := range []string{"alone", "{", "x{} y", "x ", "x 0x10"} {
		if _, err := parseSamples([]byte(bad), []string{bad[:1]}); !errors.Is(err, errSample) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
