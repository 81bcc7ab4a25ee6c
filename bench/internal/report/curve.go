package report

import (
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// curve shows how figures of fanoutd depend on one parameter.
type curve struct {
	name, title string // of the file; of the section of the document
	sentence    string // explains the shape
	axis        axis
	figures     []figure
	relative    bool // drawn relative to the first value
	grows       bool // the legend fits above the beginning of the line, not below it
	belongs     func(p *scenario.Parameters) bool
	series      func(p scenario.Parameters) string // name of the line of a run; nil if there is only one line
}

// axis is the parameter.
type axis struct {
	label string
	log   bool
	of    func(p *scenario.Parameters) *int
}

func (a axis) logarithmic() axis {
	a.log = true
	return a
}

// figure is a figure that depends on the parameter.
type figure struct {
	name, unit string
	value      Figure
}

var (
	byBystanders = axis{label: "watches of something else", of: func(p *scenario.Parameters) *int { return &p.Bystanders }}
	byGroups     = axis{label: "interests that a change concerns", of: func(p *scenario.Parameters) *int { return &p.Groups }}
	byWatchers   = axis{label: "watchers", of: func(p *scenario.Parameters) *int { return &p.Watchers }}
	byObjects    = axis{label: "objects", of: func(p *scenario.Parameters) *int { return &p.Objects }}
	byWindow     = axis{label: "changes in the window", of: func(p *scenario.Parameters) *int { return &p.Window }}

	perChange = []figure{{"CPU of fanoutd per change", "µs", func(r *scenario.Record) float64 {
		return FrontTotal(r) * 1e6 / float64(max(r.Changes, 1))
	}}}
	perWatcher = []figure{{"memory of fanoutd per watcher", "kB", func(r *scenario.Record) float64 { return front(r).PerWatcher / 1e3 }}}
	kept       = []figure{
		{"resident", "MB", func(r *scenario.Record) float64 { return Resident(r) / 1e6 }},
		{"of the heap, behind a garbage collection", "MB", func(r *scenario.Record) float64 { return float64(front(r).LiveLeft) / 1e6 }},
	}
	perDelivery     = []figure{{"CPU of fanoutd per delivery", "µs", FrontCPU}}
	timePerDelivery = []figure{{"time per delivery", "µs", func(r *scenario.Record) float64 {
		return float64(r.Elapsed.Microseconds()) / float64(max(r.Deliveries, 1))
	}}}
)

var curves = []curve{
	{
		name: "unrelated-keys", title: "A change, beside watches of other keys",
		sentence: "The index finds the interests that select the key. Others cost nothing.",
		axis:     byBystanders, figures: perChange, belongs: beside("key"),
	},
	{
		name: "unrelated-watchers", title: "A change, beside watchers of one interest that it does not concern",
		sentence: "If no event is appended to their feed, none of them is woken.",
		axis:     byBystanders, figures: perChange, belongs: beside("one"),
	},
	{
		name: "unrelated-selectors", title: "A change, beside selectors that no index finds",
		sentence: "A selector that requires no single value of a label or an indexed field is evaluated for each change. So their number has a limit.",
		axis:     byBystanders, figures: perChange, belongs: beside("selector"),
	},
	{
		name: "objects", title: "A change, among more objects",
		sentence: "A change copies only the path to its object in a tree.",
		axis:     byObjects.logarithmic(), figures: perChange,
		belongs: func(p *scenario.Parameters) bool {
			return p.Scenario == scenario.Saturation && p.Objects > 0 && p.Window == 0
		},
	},
	{
		name: "concerned-interests", title: "A change that concerns more interests",
		sentence: "The server filters and encodes the change for each interest. The number of watchers that receive it stays the same.",
		axis:     byGroups, figures: perChange,
		grows:   true,
		belongs: func(p *scenario.Parameters) bool { return p.Interest == "except" },
	},
	{
		name: "receiving-watchers", title: "A change that more watchers receive",
		sentence: "A thousand watchers fit into the caches of a processor, ten thousand do not.",
		axis:     byWatchers, figures: perChange,
		grows:   true,
		belongs: func(p *scenario.Parameters) bool { return plain(p) && p.PerConnection == 100 },
	},
	{
		name: "memory-watchers", title: "Memory with more watchers",
		sentence: "A watcher holds no events. With few watchers, the memory that their setup needed is not yet returned.",
		axis:     byWatchers, figures: perWatcher,
		belongs: func(p *scenario.Parameters) bool {
			return p.Scenario == scenario.Idle && p.Objects > 0 && p.Window == 0 && p.Watchers >= 1000
		},
		series: func(p scenario.Parameters) string { return fmt.Sprintf("%d on a connection", p.PerConnection) },
	},
	{
		name: "memory-objects", title: "Memory with more objects",
		sentence: "The server keeps each object once, encoded for all watches and lists.",
		axis:     byObjects, figures: kept,
		grows: true,
		belongs: func(p *scenario.Parameters) bool {
			return p.Scenario == scenario.Idle && p.Objects > 0 && p.Window == 0 && p.Watchers < 1000
		},
	},
	{
		name: "memory-window", title: "Memory with a larger window",
		sentence: "The window keeps each change with the object before and after it.",
		axis:     byWindow, figures: kept,
		grows:   true,
		belongs: func(p *scenario.Parameters) bool { return p.Scenario == scenario.Idle && p.Window > 0 },
	},
	{
		name: "window-cpu", title: "CPU with a larger window",
		sentence: "Nothing scans the window: a change is found by its revision.",
		axis:     byWindow.logarithmic(), figures: perDelivery, relative: true,
		belongs: busy, series: withoutWindow,
	},
	{
		name: "window-time", title: "Time with a larger window",
		sentence: "So changes, new watches, resumed watches and lists take no longer.",
		axis:     byWindow.logarithmic(), figures: timePerDelivery, relative: true,
		belongs: busy, series: withoutWindow,
	},
}

// plain reports whether a run has only watchers of all keys, with one change at a time.
func plain(p *scenario.Parameters) bool {
	return p.Scenario == scenario.Saturation && p.Client == "raw" && p.Interest == "all" && p.ValueSize == 256 && p.Batch == 1 && p.Outstanding == 1 &&
		p.Objects == 0 && p.Window == 0 && p.Bystanders == 0 && p.Stalled == 0
}

// beside returns a filter for runs with these bystanders, or without any.
func beside(bystand string) func(p *scenario.Parameters) bool {
	return func(p *scenario.Parameters) bool {
		alone := *p
		alone.Bystanders = 0
		return plain(&alone) && (p.Bystanders == 0 || p.Bystand == bystand)
	}
}

// busy selects the runs that set a window and do some work.
func busy(p *scenario.Parameters) bool { return p.Window > 0 && p.Scenario != scenario.Idle }

func withoutWindow(p scenario.Parameters) string {
	p.Window = 0
	if p.Scenario == scenario.Saturation {
		return Case(p)
	}
	return p.Scenario + ", " + Case(p)
}

// line is a line of a plot: groups that differ only in the parameter, in its order.
type line struct {
	name   string
	groups []*Group
}

// lines returns the lines of a curve that have more than one point.
func (c curve) lines(groups []*Group) []*line {
	var all []*line
	index := map[scenario.Parameters]*line{}
	for _, g := range groups {
		p := g.Parameters
		if p.Peer != "fanoutd" || !c.belongs(&p) {
			continue
		}
		key := p
		*c.axis.of(&key), key.Bystand = 0, ""
		l, ok := index[key]
		if !ok {
			l = new(line)
			if c.series != nil {
				l.name = c.series(p)
			}
			index[key] = l
			all = append(all, l)
		}
		l.groups = append(l.groups, g)
	}
	for _, l := range all {
		slices.SortStableFunc(l.groups, func(a, b *Group) int { return c.x(a) - c.x(b) })
	}
	return slices.DeleteFunc(all, func(l *line) bool { return len(l.groups) < 2 })
}

func (c curve) x(g *Group) int { return *c.axis.of(&g.Parameters) }

// table returns the figures, also relative to the first ones.
func (c curve) table(lines []*line) [][]string {
	titles, rules := []string{c.axis.label}, []string{"--:"}
	if c.series != nil {
		titles, rules = slices.Insert(titles, 0, "case"), slices.Insert(rules, 0, "---")
	}
	for _, f := range c.figures {
		titles = append(titles, f.name+" ("+f.unit+")", "x first")
		rules = append(rules, "--:", "--:")
	}
	titles, rules = append(titles, "runs", "wrong"), append(rules, "--:", "---")
	rows := [][]string{titles, rules}
	for _, l := range lines {
		for _, g := range l.groups {
			var row []string
			if c.series != nil {
				row = append(row, l.name)
			}
			row = append(row, fmt.Sprint(c.x(g)))
			for _, f := range c.figures {
				part := ""
				if first := l.groups[0].Range(f.value).Median; first > 0 {
					part = fmt.Sprintf("%.2f", g.Range(f.value).Median/first)
				}
				row = append(row, spread(g.Range(f.value)), part)
			}
			rows = append(rows, append(row, fmt.Sprint(len(g.Records)), g.Wrong()))
		}
	}
	return rows
}

// Curves returns the names of the curves.
func Curves() []string {
	var names []string
	for _, c := range curves {
		names = append(names, c.name)
	}
	return names
}

// Drawn returns the names of the curves that have records.
func Drawn(groups []*Group) []string {
	var names []string
	for _, c := range curves {
		if len(c.lines(groups)) > 0 {
			names = append(names, c.name)
		}
	}
	return names
}
