package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// Goal is a performance goal of fanoutd: a limit for a figure, usually relative to another
// figure of the same suite.
type Goal struct {
	What    string  // name of the figure
	Against string  // name of the other figure; "": none
	Want    float64 // maximum, or minimum, of the relation
	AtLeast bool

	of, by point // by has no figure if Against is ""
	base   point // subtracted from both; no figure: nothing is
	kind   kind
}

// point is a figure of equal runs.
type point struct {
	scenario, what, system string // see Case and System
	figure                 Figure
}

// kind is a kind of relation and its unit.
type kind struct {
	relate func(of, by float64) float64 // by is 0 if there is no other figure
	show   func(x float64) string
}

var (
	ratioOf      = kind{func(of, by float64) float64 { return of / by }, number}
	differenceOf = kind{func(of, by float64) float64 { return of - by }, func(x float64) string { return number(x) + " µs" }}
	milliseconds = kind{func(of, by float64) float64 { return (of - by) / 1000 }, func(x float64) string { return number(x) + " ms" }}
	seconds      = kind{func(of, by float64) float64 { return of - by }, func(x float64) string { return number(x) + " s" }}
	timesData    = kind{func(of, by float64) float64 { return of - by }, number}
	bytesOf      = kind{func(of, by float64) float64 { return of - by }, func(x float64) string { return number(x) + " B" }}
	megabytes    = kind{func(of, by float64) float64 { return (of - by) / 1e6 }, func(x float64) string { return number(x) + " MB" }}
)

// Goals lists the goals. Figures are medians of the runs. The CPU time of a server does not
// include its store.
var Goals = slices.Concat(
	ratios(scenario.Saturation, "CPU per delivery of the front server", FrontCPU, "floor", map[string]float64{
		"1000 x 1": 1.5, "10000 x 1": 1.5, "1000 x 100": 2.5, "1000 x 1, bursts of 64": 1.3, "1000 x 100, bursts of 64": 1.3,
	}),
	ratios(scenario.Saturation, "CPU per delivery of the front server", FrontCPU, "nats", map[string]float64{
		"1000 x 1": 1, "10000 x 1": 1, "1000 x 1, bursts of 64": 0.5, "1000 x 100, bursts of 64": 0.5,
	}),
	ratios(scenario.Saturation, "CPU per delivery of all servers", CPU, "etcd", map[string]float64{
		"1000 x 100": 0.2, "10000 x 100": 0.125, "1000 x 100, 16 at once": 0.2, "10000 x 100, 16 at once": 0.125,
	}),
	minimums(ratios(scenario.Saturation, "deliveries per second", PerSecond, "etcd", map[string]float64{
		"1000 x 100, 16 at once": 5, "10000 x 100, 16 at once": 5,
	})),
	[]Goal{
		acknowledgement("p50", AckP50), acknowledgement("p99", AckP99),
		{
			What: "p99 from writing to each watcher, 10000 x 100, 10/s", Against: "etcd", Want: 0.25, kind: ratioOf,
			of: point{scenario.Steady, "10000 x 100, 10/s", "fanoutd", EachP99},
			by: point{scenario.Steady, "10000 x 100, 10/s", "etcd", EachP99},
		},
		{
			What: "added to the p50 from writing to the only watcher, 10/s", Against: "etcd", Want: 300, kind: differenceOf,
			of: point{scenario.Steady, "1 x 1, 10/s", "fanoutd", EachP50},
			by: point{scenario.Steady, "1 x 1, 10/s", "etcd", EachP50},
		},
		unaffected("100 stalled (frozen)"), unaffected("100 stalled (frozen) for 500ms"),
		idleMemory("100000 x 100", 1000), idleMemory("15000 x 1", 480),
		{
			What: "growth of the server while 5000 new watchers get 800 objects of 256 B, with their streams", Want: 64, kind: megabytes,
			of: point{scenario.Startup, storm5000, "fanoutd", Growth},
		},
		{
			What: "the same without the growth with 1 object", Against: "1 object", Want: 64, kind: megabytes,
			of: point{scenario.Startup, storm5000, "fanoutd", Growth}, by: point{scenario.Startup, streams5000, "fanoutd", Growth},
		},
		{
			What: "seconds until 5000 new watchers have 800 objects of 256 B", Against: "floor", Want: 1.5, kind: ratioOf,
			of: point{scenario.Startup, storm5000, "fanoutd", Seconds}, by: point{scenario.Startup, storm5000, "floor", Seconds},
		},
		{
			What: "growth of the server while " + lists50 + " are listed", Want: 100, kind: megabytes,
			of: point{scenario.Lists, lists50, "fanoutd (grpc)", Growth},
		},
		{
			What: "CPU per list of all servers, " + lists50, Against: "etcd", Want: 1.0 / 3, kind: ratioOf,
			of: point{scenario.Lists, lists50, "fanoutd (grpc)", CPU}, by: point{scenario.Lists, lists50, "etcd (grpc)", CPU},
		},
		{
			What: "CPU per list of all servers, " + list1 + " in pages of 1000", Against: "in one piece", Want: 1.5, kind: ratioOf,
			of: point{scenario.Lists, list1 + " in pages of 1000", "fanoutd (grpc)", CPU}, by: point{scenario.Lists, list1, "fanoutd (grpc)", CPU},
		},
	},
	subscribeGoals, callGoals, stateGoals, watchGoals, clusterGoals,
)

const (
	storm5000   = "5000 x 1, 800 objects of 256 B"
	streams5000 = "5000 x 1, 1 object of 256 B"
	lists50     = "50 of 10000 objects of 1024 B"
	list1       = "1 of 150000 objects of 256 B"
)

// ratios returns goals for the ratio of a figure of fanoutd to that of a peer, with the
// maximum in each case.
func ratios(name, what string, f Figure, peer string, most map[string]float64) []Goal {
	var all []Goal
	for _, c := range cases(most) {
		all = append(all, Goal{
			What: what + ", " + c, Against: peer, Want: most[c], kind: ratioOf,
			of: point{name, c, "fanoutd", f}, by: point{name, c, peer, f},
		})
	}
	return all
}

// cases returns the cases, ordered by watchers, then by events per write.
func cases(m map[string]float64) []string {
	var all []string
	for c := range m {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b string) int {
		if n := strings.Count(a, ",") - strings.Count(b, ","); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	return all
}

// minimums turns maxima into minima.
func minimums(goals []Goal) []Goal {
	for i := range goals {
		goals[i].AtLeast = true
	}
	return goals
}

// acknowledgement returns the goal that watchers do not slow writes down.
func acknowledgement(name string, f Figure) Goal {
	return Goal{
		What: name + " until a write is acknowledged, 10000 x 100, 10/s", Against: "no watchers", Want: 1.2, kind: ratioOf,
		of: point{scenario.Steady, "10000 x 100, 10/s", "fanoutd", f}, by: point{scenario.Steady, "no watchers, 10/s", "fanoutd", f},
	}
}

// unaffected returns the goal that these stalled watchers do not slow the others down.
func unaffected(stalled string) Goal {
	const alone = "1000 x 10, 20/s"
	return Goal{
		What: "p99 from writing to each watcher, " + alone + ", " + stalled, Against: "none stalled", Want: 1.2, kind: ratioOf,
		of: point{scenario.Steady, alone + ", " + stalled, "fanoutd", EachP99}, by: point{scenario.Steady, alone, "fanoutd", EachP99},
	}
}

// idleMemory returns a goal for the memory of the server with idle watchers, in megabytes.
func idleMemory(size string, most float64) Goal {
	return Goal{
		What: "memory of the server with idle watchers, " + size, Want: most, kind: megabytes,
		of: point{scenario.Idle, size, "fanoutd", Resident},
	}
}

// Measured returns the relation of a goal, calculated for each repeat, or false if records
// are missing. Wrong describes faults of fanoutd in these runs.
func (g *Goal) Measured(groups []*Group) (r Range, wrong string, ok bool) {
	of := g.of.in(groups)
	if of == nil {
		return Range{}, "", false
	}
	others, base := g.by.byRepeat(groups), g.base.byRepeat(groups)
	if g.by.figure != nil && others == nil || g.base.figure != nil && base == nil {
		return Range{}, "", false
	}
	var values []float64
	for _, record := range of.Records {
		repeat := record.Parameters.Repeat
		other, ok := others[repeat]
		less, ok2 := base[repeat]
		if g.by.figure != nil && (!ok || other-less == 0) || g.base.figure != nil && !ok2 {
			continue
		}
		values = append(values, g.kind.relate(g.of.figure(record)-less, other-less))
	}
	if len(values) == 0 {
		return Range{}, "", false
	}
	return rangeOf(values), of.Wrong(), true
}

// byRepeat returns the figure in each repeat, or nil if there are no records.
func (p point) byRepeat(groups []*Group) map[int]float64 {
	if p.figure == nil {
		return nil
	}
	group := p.in(groups)
	if group == nil {
		return nil
	}
	all := map[int]float64{}
	for _, record := range group.Records {
		all[record.Parameters.Repeat] = p.figure(record)
	}
	return all
}

// in returns the runs of a point, or nil.
func (p point) in(groups []*Group) *Group {
	for _, g := range groups {
		if g.Parameters.Scenario == p.scenario && Case(g.Parameters) == p.what && System(g.Parameters) == p.system {
			return g
		}
	}
	return nil
}

func (g *Goal) reached(r Range) bool {
	if g.AtLeast {
		return r.Median >= g.Want
	}
	return r.Median <= g.Want
}

// Missed describes the goals that have records and are not reached.
func Missed(groups []*Group) []string {
	var missed []string
	for _, row := range goalTable(groups) {
		what, against, want, measured, verdict := row[0], row[1], row[2], row[3], row[4]
		if verdict == "yes" {
			continue
		}
		if against != "" {
			what += ", against " + against
		}
		missed = append(missed, fmt.Sprintf("%s: %s, want %s (%s)", what, measured, want, verdict))
	}
	return missed
}

// goalTable returns a row for each goal that has records.
func goalTable(groups []*Group) [][]string {
	var rows [][]string
	for _, g := range Goals {
		r, wrong, ok := g.Measured(groups)
		if !ok {
			continue
		}
		want := "at most "
		if g.AtLeast {
			want = "at least "
		}
		verdict := map[bool]string{true: "yes", false: "no"}[g.reached(r)]
		if wrong != "" {
			verdict = "no: " + wrong
		}
		measured := g.kind.show(r.Median)
		if r.Least != r.Most {
			measured += fmt.Sprintf(" (%s to %s)", g.kind.show(r.Least), g.kind.show(r.Most))
		}
		rows = append(rows, []string{g.What, g.Against, want + g.kind.show(g.Want), measured, verdict})
	}
	return rows
}
