package report

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// metricPlot is a plot of a figure over the number of watchers.
type metricPlot struct {
	name   string // of the file
	label  string // of the figure
	figure Figure
	of     []string // scenarios that have the figure
}

var metricPlots = []metricPlot{
	{"cpu", "CPU of all servers per delivery (µs)", CPU, []string{scenario.Saturation, scenario.Steady}},
	{"latency", "from writing to a watcher, p99 (ms)", func(r *scenario.Record) float64 { return EachP99(r) / 1000 }, []string{scenario.Saturation, scenario.Steady}},
	{"memory", "memory of all servers per idle watcher (kB)", func(r *scenario.Record) float64 { return Memory(r) / 1000 }, []string{scenario.Saturation, scenario.Idle}},
}

// Plots writes SVG plots over the number of watchers, one for each figure and each set of
// groups that differ only in the system and the number of watchers. Both axes are
// logarithmic. It returns the names of the files.
func Plots(dir string, groups []*Group) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory for plots: %w", err)
	}
	var names []string
	for _, family := range families(groups) {
		for _, m := range metricPlots {
			if !slices.Contains(m.of, family.scenario) {
				continue
			}
			p, err := m.draw(family)
			if err != nil {
				return nil, fmt.Errorf("draw %s of %s: %w", m.name, family.name, err)
			}
			if p == nil {
				continue
			}
			name := m.name + "-" + fileName(family.name) + ".svg"
			if err := p.Save(16*vg.Centimeter, 10*vg.Centimeter, filepath.Join(dir, name)); err != nil {
				return nil, fmt.Errorf("write %s: %w", name, err)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// family is a set of groups in one plot.
type family struct {
	name     string
	scenario string
	series   map[string][]*Group // by system, in order of watchers
	order    []string            // of the systems
}

// families returns the families with more than one number of watchers.
func families(groups []*Group) []*family {
	var all []*family
	index := map[string]*family{}
	for _, g := range groups {
		name := fmt.Sprintf("%s, %d on a connection", g.Parameters.Scenario, g.Parameters.PerConnection)
		if _, rest, ok := strings.Cut(Case(g.Parameters), ", "); ok {
			name += ", " + rest
		}
		f, ok := index[name]
		if !ok {
			f = &family{name: name, scenario: g.Parameters.Scenario, series: map[string][]*Group{}}
			index[name] = f
			all = append(all, f)
		}
		system := System(g.Parameters)
		if len(f.series[system]) == 0 {
			f.order = append(f.order, system)
		}
		f.series[system] = append(f.series[system], g)
	}
	for _, f := range all {
		for _, groups := range f.series {
			slices.SortStableFunc(groups, func(a, b *Group) int { return a.Parameters.Watchers - b.Parameters.Watchers })
		}
	}
	return slices.DeleteFunc(all, func(f *family) bool {
		for _, groups := range f.series {
			if len(groups) > 1 {
				return false
			}
		}
		return true
	})
}

// draw returns nil if all values are zero, which a logarithmic axis cannot show.
func (p metricPlot) draw(f *family) (*plot.Plot, error) {
	drawing := plot.New()
	drawing.Title.Text = f.name
	drawing.X.Label.Text, drawing.Y.Label.Text = "watchers", p.label
	drawing.X.Scale, drawing.Y.Scale = plot.LogScale{}, plot.LogScale{}
	drawing.X.Tick.Marker, drawing.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	drawing.Legend.Top, drawing.Legend.Left = true, true
	drawing.Add(plotter.NewGrid())
	var lines []any
	for _, system := range f.order {
		var points plotter.XYs
		for _, g := range f.series[system] {
			if y := g.Range(p.figure).Median; y > 0 {
				points = append(points, plotter.XY{X: float64(g.Parameters.Watchers), Y: y})
			}
		}
		if len(points) > 0 {
			lines = append(lines, system, points)
		}
	}
	if len(lines) == 0 {
		return nil, nil
	}
	return drawing, plotutil.AddLinePoints(drawing, lines...)
}

var nonNameRunes = regexp.MustCompile(`[^a-z0-9]+`)

func fileName(text string) string {
	return strings.Trim(nonNameRunes.ReplaceAllString(strings.ToLower(text), "-"), "-")
}
