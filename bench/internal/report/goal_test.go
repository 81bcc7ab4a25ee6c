package report

import (
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// pairedRuns returns repeated runs of fanoutd and a peer. Each pair holds their CPU per
// delivery in one repeat.
func pairedRuns(peer string, pairs ...[2]float64) []*scenario.Record {
	var records []*scenario.Record
	for i, pair := range pairs {
		records = append(records, fakeRecord("fanoutd", 1000, i, pair[0]), fakeRecord(peer, 1000, i, pair[1]))
	}
	return records
}

// A goal is the median over the ratios of paired repeats.
func TestGoalTable(t *testing.T) {
	lossy := pairedRuns("floor", [2]float64{2, 1})
	lossy[0].Counts = delivery.Counts{Lost: 3}
	fast := pairedRuns("etcd", [2]float64{1, 9})
	for i, r := range fast {
		r.Parameters.Outstanding = 16
		r.PerSecond = []float64{600, 100}[i]
	}
	slow := []*scenario.Record{fakeRecord("fanoutd", 1, 0, 1), fakeRecord("etcd", 1, 0, 1)}
	for i, r := range slow {
		r.Parameters.Scenario, r.Parameters.Rate, r.Parameters.PerConnection = scenario.Steady, 10, 1
		r.Each = delivery.Summary{Count: 1, P50: []int64{700, 300}[i]}
	}
	idle := fakeRecord("fanoutd", 100_000, 0, 1)
	idle.Parameters.Scenario, idle.Servers[1].RSSIdle = scenario.Idle, 1_200_000_000
	var above []*scenario.Record // repeats that disturbances hit as a whole: CPU of the writes, with a stream each, with shared streams
	for repeat, cpu := range [][3]int64{{100, 500, 300}, {200, 1000, 280}, {100, 300, 260}} {
		for i, p := range []scenario.Parameters{{}, {Watchers: 1000}, {Watchers: 1000, PerStream: 100}} {
			r := fakeRecord("fanoutd", p.Watchers, repeat, 1)
			r.Parameters.PerStream, r.Parameters.Outstanding, r.Parameters.Writes = p.PerStream, 16, 30_000
			if r.Parameters.Interest = "key"; p.Watchers == 0 {
				r.Parameters.Interest = "all"
			}
			r.Changes, r.Servers[1].Total = 30_000, 30_000*cpu[i]
			above = append(above, r)
		}
	}
	for name, c := range map[string]struct {
		records []*scenario.Record
		want    [][]string
	}{
		"reached": {pairedRuns("floor", [2]float64{20, 10}, [2]float64{9, 3}, [2]float64{1, 1}), [][]string{
			{"CPU per delivery of the front server, 1000 x 100", "floor", "at most 2.50", "2.00 (1.00 to 3.00)", "yes"},
		}},
		"missed": {pairedRuns("floor", [2]float64{3, 1}, [2]float64{3, 1}), [][]string{
			{"CPU per delivery of the front server, 1000 x 100", "floor", "at most 2.50", "3.00", "no"},
		}},
		"lost events": {lossy, [][]string{
			{"CPU per delivery of the front server, 1000 x 100", "floor", "at most 2.50", "2.00", "no: 3 lost"},
		}},
		"minimum": {fast, [][]string{
			{"CPU per delivery of all servers, 1000 x 100, 16 at once", "etcd", "at most 0.200", "0.200", "yes"},
			{"deliveries per second, 1000 x 100, 16 at once", "etcd", "at least 5.00", "6.00", "yes"},
		}},
		"difference": {slow, [][]string{
			{"added to the p50 from writing to the only watcher, 10/s", "etcd", "at most 300 µs", "400 µs", "no"},
		}},
		"absolute value": {[]*scenario.Record{idle}, [][]string{
			{"memory of the server with idle watchers, 100000 x 100", "", "at most 1000 MB", "1200 MB", "no"},
		}},
		"above a base": {above, [][]string{
			{"CPU of the front server above that of the writes, 1000 x 100, 16 at once, one key each, 100 a stream", "a stream each", "at most 0.500", "0.500 (0.100 to 0.800)", "yes"},
		}},
		"no base":       {above[1:3], nil},
		"no peer":       {pairedRuns("floor", [2]float64{2, 1})[:1], nil},
		"other repeats": {[]*scenario.Record{fakeRecord("fanoutd", 1000, 0, 1), fakeRecord("floor", 1000, 1, 1)}, nil},
		"zero CPU":      {pairedRuns("floor", [2]float64{2, 0}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := goalTable(Groups(c.records))
			if !slices.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			missed := 0
			for _, row := range c.want {
				if row[4] != "yes" {
					missed++
				}
			}
			if got := Missed(Groups(c.records)); len(got) != missed {
				t.Errorf("got missed goals %q, want %d", got, missed)
			}
		})
	}
}
