package house

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"breakwater/internal/metrics"
	"breakwater/queue"
)

// This file holds packaging/alerts.yml and packaging/grafana/breakwater.json against
// what a scrape really has: a metric or a label that was renamed makes an alert silent,
// and nobody notices until it is missed.

// scraped is what a scrape has: the values of each label of each metric.
type scraped map[string]map[string]map[string]bool

// scrapeAll makes a scrape of a process in which everything is.
func scrapeAll(t *testing.T) scraped {
	t.Helper()
	m := metrics.New(metrics.Options{
		Version: "1.2.3",
		Status: func(context.Context, time.Time) (queue.StoreStatus, error) {
			return queue.StoreStatus{DiskFree: 1, AtRisk: []queue.AtRisk{{Currency: "EUR", Open: "1.00", Held: "1.00", Dead: "1.00"}}}, nil
		},
		Sockets: map[string]func() metrics.Connections{
			"enqueue": func() metrics.Connections { return metrics.Connections{} },
			"consume": func() metrics.Connections { return metrics.Connections{} },
			"control": func() metrics.Connections { return metrics.Connections{} },
		},
		Available:   func(queue.Route) (up, inProcess bool) { return true, true },
		Health:      func(*queue.StoreStatus, time.Time) metrics.Health { return metrics.Health{} },
		Checkpoints: func() metrics.Checkpoints { return metrics.Checkpoints{} },
	})
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	series := regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
	all := scraped{"up": {"job": {"breakwater": true}}} // which Prometheus makes itself
	for line := range strings.Lines(w.Body.String()) {
		parts := series.FindStringSubmatch(line)
		if parts == nil {
			continue
		}
		if all[parts[1]] == nil {
			all[parts[1]] = map[string]map[string]bool{}
		}
		for _, l := range label.FindAllStringSubmatch(parts[2], -1) {
			if all[parts[1]][l[1]] == nil {
				all[parts[1]][l[1]] = map[string]bool{}
			}
			all[parts[1]][l[1]][l[2]] = true
		}
	}
	for _, d := range metrics.Names() {
		if all[d.Name] == nil && all[d.Name+"_count"] == nil {
			t.Fatalf("the scrape lacks %s: a test that looks for nothing finds nothing", d.Name)
		}
	}
	return all
}

// ofTarget are the labels that Prometheus adds to everything it scrapes.
var ofTarget = []string{"instance", "job"}

// ofPromQL are the functions, operators and words that our expressions use.
var ofPromQL = []string{
	"sum", "max", "min", "rate", "increase", "delta", "histogram_quantile", "time", "by", "on", "and", "or", "le",
}

var (
	grouping = regexp.MustCompile(`\b(?:by|on) \(([^()]*)\)`)
	quotes   = regexp.MustCompile(`"[^"]*"`)
	ranges   = regexp.MustCompile(`\[[^\[\]]*\]`)
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^{}]*\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	numbers  = regexp.MustCompile(`\b[0-9][0-9.]*\b`)
)

// wrongIn says what of an expression a scrape does not have.
func (all scraped) wrongIn(expr string) (wrong []string) {
	if open := balance(expr); open != "" {
		wrong = append(wrong, "is not closed: "+open)
	}
	labels := map[string]bool{}
	for _, l := range append(slices.Clone(ofTarget), "le") {
		labels[l] = true
	}
	bare := numbers.ReplaceAllString(ranges.ReplaceAllString(grouping.ReplaceAllString(expr, " "), " "), " ")
	found := false
	for _, s := range selector.FindAllStringSubmatch(stripQuoted(bare), -1) {
		if slices.Contains(ofPromQL, s[1]) {
			continue
		}
		found = true
		has, ok := all[s[1]]
		if !ok {
			wrong = append(wrong, "there is no metric "+s[1])
			continue
		}
		for l := range has {
			labels[l] = true
		}
	}
	if !found {
		wrong = append(wrong, "it asks for nothing")
	}
	for _, s := range regexp.MustCompile(`([a-z_]+)(\{[^{}]*\})`).FindAllStringSubmatch(expr, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			wrong = append(wrong, all.wrongMatcher(s[1], m[1], m[2], m[3])...)
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(g[1], ",") {
			if l = strings.TrimSpace(l); !labels[l] {
				wrong = append(wrong, "no metric of it has the label "+l)
			}
		}
	}
	return wrong
}

// wrongMatcher says what is wrong with one label of a selector.
func (all scraped) wrongMatcher(name, label, op, value string) []string {
	if slices.Contains(ofTarget, label) || all[name] == nil {
		return nil
	}
	values := all[name][label]
	if values == nil {
		return []string{name + " has no label " + label}
	}
	for _, v := range strings.Split(value, "|") {
		if !values[v] {
			return []string{name + " is never " + label + op + `"` + v + `"`}
		}
	}
	return nil
}

// stripQuoted empties texts, so that no word of theirs is taken for a metric, and the
// selectors that are left.
func stripQuoted(expr string) string {
	return regexp.MustCompile(`\{[^{}]*\}`).ReplaceAllString(quotes.ReplaceAllString(expr, `""`), "{}")
}

// balance returns the brackets that are open at the end, or the one too many.
func balance(expr string) string {
	var open []rune
	pair := map[rune]rune{')': '(', ']': '[', '}': '{'}
	for _, c := range quotes.ReplaceAllString(expr, "") {
		switch c {
		case '(', '[', '{':
			open = append(open, c)
		case ')', ']', '}':
			if len(open) == 0 || open[len(open)-1] != pair[c] {
				return string(c)
			}
			open = open[:len(open)-1]
		}
	}
	return string(open)
}

// alerts is a file of rules.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

func TestMonitoring_alerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "packaging", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file alerts
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	operating := manual(t)
	all, seen, heldPages := scrapeAll(t), map[string]bool{}, false
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Breakwater") {
				t.Errorf("%s: its name is another's, or does not begin with Breakwater", r.Alert)
			}
			seen[r.Alert] = true
			heldPages = heldPages || r.Labels["severity"] == "page" && strings.Contains(r.Expr, `breakwater_exceptions{state="held"}`)
			for _, wrong := range all.wrongIn(r.Expr) {
				t.Errorf("%s: %s", r.Alert, wrong)
			}
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: for: %v", r.Alert, err)
			}
			if s := r.Labels["severity"]; s != "page" && s != "ticket" || len(r.Labels) != 1 {
				t.Errorf("%s: labels %v", r.Alert, r.Labels)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || len(r.Annotations) != 3 {
				t.Errorf("%s: annotations %v", r.Alert, r.Annotations)
			}
			section, ok := strings.CutPrefix(r.Annotations["runbook"], "docs/operating.md#")
			if !ok || !operating.sections[section] {
				t.Errorf("%s: %q is no section of the manual", r.Alert, r.Annotations["runbook"])
			}
			if !strings.Contains(operating.text, "| `"+r.Alert+"` |") {
				t.Errorf("%s: the manual does not say what to do", r.Alert)
			}
		}
	}
	if !heldPages {
		t.Error("nobody is paged where all waits behind dead letters: nothing is claimable then, and the other pages look at what is")
	}
	if len(seen) < 15 {
		t.Errorf("only %d alerts were found", len(seen))
	}
}

// manual is docs/operating.md: its text and the names of its sections, as links have
// them.
func manual(t *testing.T) (m struct {
	text     string
	sections map[string]bool
}) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	m.text, m.sections = string(text), map[string]bool{}
	for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(m.text, -1) {
		m.sections[strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return m
}

// board is a dashboard, as far as it matters here.
type board struct {
	Title, UID string
	Templating struct {
		List []struct{ Name string }
	}
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ H, W, X, Y int }
		Targets []struct{ RefID, Expr string }
	}
}

func TestMonitoring_dashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "packaging", "grafana", "breakwater.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	all, ids, cells, exprs := scrapeAll(t), map[int]bool{}, map[[2]int]string{}, 0
	for _, p := range b.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q: its id is another's, or it has no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies over %q, or beside the grid", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			exprs++
			for _, wrong := range all.wrongIn(target.Expr) {
				t.Errorf("panel %q, %s: %s", p.Title, target.Expr, wrong)
			}
			if !strings.Contains(target.Expr, `instance=~"$instance"`) {
				t.Errorf("panel %q, %s: it does not keep to the chosen instance", p.Title, target.Expr)
			}
		}
	}
	if exprs < 40 || b.UID != "breakwater" || len(b.Templating.List) != 2 {
		t.Errorf("%d expressions, uid %q, variables %+v", exprs, b.UID, b.Templating.List)
	}
}

// The check itself must notice what it is for.
func TestMonitoring_notices(t *testing.T) {
	all := scrapeAll(t)
	for expr, want := range map[string]string{
		`sum by (state) (breakwater_exceptions{instance=~"$instance"}) > 0`:                                               "",
		`histogram_quantile(0.9, sum by (le, route) (rate(breakwater_handler_seconds_bucket{route="ROUTE_REVIEW"}[5m])))`: "",
		`breakwater_exception`:                                "there is no metric breakwater_exception",
		`breakwater_exceptions{status="ready"}`:               "breakwater_exceptions has no label status",
		`breakwater_exceptions{state=~"ready|waiting"}`:       `breakwater_exceptions is never state=~"waiting"`,
		`sum by (code) (breakwater_exceptions)`:               "no metric of it has the label code",
		`sum(rate(breakwater_lines_total[5m])`:                "is not closed: (",
		`time() > 5`:                                          "it asks for nothing",
		`avg(breakwater_paused)`:                              "there is no metric avg",
		`rate(breakwater_queue_seconds[5m])`:                  "there is no metric breakwater_queue_seconds",
		`increase(breakwater_raised_total{code="LAG"}[5m])>0`: `breakwater_raised_total is never code="LAG"`,
	} {
		if got := strings.Join(all.wrongIn(expr), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
