package observability

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v4"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// given are labels that Prometheus adds, and the label le of buckets.
var given = []string{"job", "instance", "le"}

// known has all metrics that queries may use: those of a fanoutd after some work, and those
// of recording rules.
type known struct {
	scrape   scrape
	recorded map[string][]string // their labels
}

// worked returns the metrics of a fanoutd after some work.
func worked(t *testing.T) *known {
	t.Helper()
	in := start(t, encrypted(t))
	w := in.watch(t, &fanoutv1.WatchRequest{})
	in.put(t, "k", "v")
	next(t, w)
	all := in.scrape(t)
	maps.Copy(all, ofCluster(t))
	return &known{all, map[string][]string{}}
}

// labelsOf returns the label names of a metric, or false if the metric does not exist.
func (k *known) labelsOf(name string) ([]string, bool) {
	if names, ok := k.recorded[name]; ok {
		return names, true
	}
	if name == "up" { // added by Prometheus
		return nil, true
	}
	if f, ok := k.scrape[name]; ok && f.GetType().String() != "HISTOGRAM" {
		names := labelNames(f)
		if f.GetType().String() == "SUMMARY" {
			names = append(names, "quantile")
		}
		return names, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && k.scrape[base].GetType().String() == "HISTOGRAM" {
			return labelNames(k.scrape[base]), true
		}
	}
	return nil, false
}

// variables replaces Grafana's variables with valid values. It also replaces the main module
// of fanoutd, because the test serves the metrics from its own module.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*", "$resource", ".*",
	`path="github.com/fanoutd/fanoutd"`, `path="github.com/fanoutd/fanoutd/test/observability"`)

// check parses an expression, and fails the test if a metric or label in it does not exist.
// It returns the labels that the result may have.
func (k *known) check(t *testing.T, where, expr string) []string {
	t.Helper()
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(expr))
	if err != nil {
		t.Errorf("%s: %v in %s", where, err, expr)
		return nil
	}
	all := slices.Clone(given)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			names, exists := k.labelsOf(s.Name)
			if !exists {
				t.Errorf("%s: metric %s does not exist", where, s.Name)
			}
			all = append(all, names...)
			for _, m := range s.LabelMatchers {
				k.checkMatcher(t, where, s.Name, names, m)
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		var used []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			used = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range used {
			if !slices.Contains(all, l) {
				t.Errorf("%s: no metric in the expression has the label %s", where, l)
			}
		}
		return nil
	})
	return all
}

// checkMatcher fails the test unless the metric has the label and, if the matcher requires a
// value, a series with a matching value exists.
func (k *known) checkMatcher(t *testing.T, where, metric string, names []string, m *labels.Matcher) {
	t.Helper()
	if m.Name == model.MetricNameLabel || slices.Contains(given, m.Name) {
		return
	}
	if !slices.Contains(names, m.Name) {
		t.Errorf("%s: label %s does not exist on %s, only %v", where, m.Name, metric, names)
		return
	}
	f := k.scrape[metric]
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if f == nil {
			f = k.scrape[strings.TrimSuffix(metric, suffix)]
		}
	}
	for _, one := range f.GetMetric() {
		for _, l := range one.GetLabel() {
			if l.GetName() == m.Name && m.Matches(l.GetValue()) {
				return
			}
		}
	}
	if m.Name != "quantile" && f != nil {
		t.Errorf("%s: no series matches %s of %s", where, m, metric)
	}
}

// TestAlertsUseExistingMetrics checks that the rules for Prometheus use existing metrics, and
// that each alert has a description and a runbook.
func TestAlertsUseExistingMetrics(t *testing.T) {
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Record, Alert, Expr, For string
				Labels, Annotations      map[string]string
			}
		}
	}
	if err := yaml.Load(text, &file, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	explained, err := os.ReadFile(monitorPage)
	if err != nil {
		t.Fatal(err)
	}
	k, alerts, mentioned := worked(t), 0, map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			names := k.check(t, r.Record+r.Alert, r.Expr)
			if r.Record != "" {
				k.recorded[r.Record] = names
				continue
			}
			alerts++
			if severity := r.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("%s: got severity %q", r.Alert, severity)
			}
			for _, name := range []string{"summary", "description"} {
				if r.Annotations[name] == "" {
					t.Errorf("%s: no %s", r.Alert, name)
				}
			}
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["description"], -1) {
				if !slices.Contains(names, m[1]) {
					t.Errorf("%s: label %s does not exist", r.Alert, m[1])
				}
			}
			anchor, ok := strings.CutPrefix(r.Annotations["runbook_url"], "https://github.com/fanoutd/fanoutd/blob/main/docs/tasks/monitor.md#")
			if mentioned[anchor] = true; !ok || !strings.Contains(strings.ToLower(string(explained)), "\n### "+strings.ReplaceAll(anchor, "-", " ")+"\n") {
				t.Errorf("%s: the runbook %q does not exist", r.Alert, r.Annotations["runbook_url"])
			}
		}
	}
	if alerts < 10 {
		t.Errorf("found only %d alerts", alerts)
	}
	_, runbook, _ := strings.Cut(string(explained), "\n## Runbook\n")
	for _, m := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(runbook, -1) {
		if anchor := strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"); !mentioned[anchor] {
			t.Errorf("the runbook explains %q, which is no alert", m[1])
		}
	}
}

// unitsOf maps units of Grafana to suffixes of metric names.
var unitsOf = map[string]string{"bytes": "_bytes", "Bps": "_bytes_total", "s": "_seconds"}

// TestDashboardUsesExistingMetrics checks that the dashboard uses existing metrics, and shows
// all metrics of fanoutd.
func TestDashboardUsesExistingMetrics(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/fanoutd.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Definition, AllValue string }
		}
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }

			FieldConfig struct {
				Defaults  struct{ Unit string }
				Overrides []struct{ Matcher struct{ ID, Options string } }
			}
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	k, asked := worked(t), ""
	for _, p := range dashboard.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s: no queries", p.Title)
		}
		for _, target := range p.Targets {
			k.check(t, p.Title, target.Expr)
			asked += target.Expr + "\n"
			other := false // it overrides the unit
			for _, o := range p.FieldConfig.Overrides {
				other = other || o.Matcher.ID == "byFrameRefID" && o.Matcher.Options == target.RefID
			}
			if name := unitsOf[p.FieldConfig.Defaults.Unit]; !other && !strings.Contains(target.Expr, name) {
				t.Errorf("%s: unit %s does not fit %s", p.Title, p.FieldConfig.Defaults.Unit, target.Expr)
			}
		}
		for _, other := range dashboard.Panels {
			a, b := p.GridPos, other.GridPos
			if p.ID != other.ID && a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s and %s overlap", p.Title, other.Title)
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.AllValue != "" {
			t.Errorf("variable %s: got %q for all, which includes metrics of other programs", v.Name, v.AllValue)
		}
		inner, ok := strings.CutPrefix(v.Definition, "label_values(")
		if !ok {
			continue // the data source variable
		}
		expr := inner[:strings.LastIndex(inner, ",")]
		k.check(t, "the variable "+v.Name, expr)
	}
	for name := range k.scrape {
		// Some metrics are only for calculations.
		if strings.HasPrefix(name, "fanoutd_") && !strings.Contains(asked, name) &&
			!slices.Contains([]string{"fanoutd_resource_loaded", "fanoutd_cacher_window_oldest_revision", "fanoutd_dispatch_revision", "fanoutd_certificate_not_before_timestamp_seconds"}, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}
