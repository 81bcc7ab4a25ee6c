package report

import (
	"slices"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

const millionObjects = "1000000 objects of 256 B"

// stateGoals are the goals for the memory with many objects, and for a start with them.
var stateGoals = slices.Concat(
	objectGoals(beforeEtcd, 2.2, "memory", FilledResident, RestartedResident),
	objectGoals(embedded, 3.2, "anonymous memory", FilledToData, RestartedToData), // without the pages of etcd's database
	[]Goal{{
		What: "peak of etcd during the start of fanoutd, " + millionObjects, Against: "before", Want: 1.3, kind: ratioOf,
		of: point{scenario.State, millionObjects, beforeEtcd, StorePeak}, by: point{scenario.State, millionObjects, beforeEtcd, StoreSteady},
	}},
)

// objectGoals returns the goals for a fanoutd: its memory in comparison with the data, and its start.
func objectGoals(system string, most float64, memory string, filled, restarted Figure) []Goal {
	at := func(f Figure) point { return point{scenario.State, millionObjects, system, f} }
	return []Goal{
		{What: memory + " in comparison with the data, " + millionObjects + ", " + system, Want: most, kind: timesData, of: at(filled)},
		{What: "the same after a restart, " + system, Want: most, kind: timesData, of: at(restarted)},
		{What: "start until a linearizable read, " + millionObjects + ", " + system, Want: 5, kind: seconds, of: at(Seconds)},
	}
}

// The figures of scenario State, in bytes or in comparison with the data.
var (
	FilledAnonymous    Figure = func(r *scenario.Record) float64 { return float64(front(r).AnonIdle) }
	FilledPages        Figure = func(r *scenario.Record) float64 { return float64(front(r).RSSIdle - front(r).AnonIdle) }
	FilledToData       Figure = func(r *scenario.Record) float64 { return FilledAnonymous(r) / data(r) }
	FilledResident     Figure = func(r *scenario.Record) float64 { return float64(front(r).RSSIdle) / data(r) }
	RestartedResident  Figure = func(r *scenario.Record) float64 { return float64(front(r).RSSEnd) / data(r) }
	RestartedAnonymous Figure = func(r *scenario.Record) float64 { return float64(front(r).AnonEnd) }
	RestartedPages     Figure = func(r *scenario.Record) float64 { return float64(front(r).RSSEnd - front(r).AnonEnd) }
	RestartedToData    Figure = func(r *scenario.Record) float64 { return RestartedAnonymous(r) / data(r) }
	StoreSteady        Figure = func(r *scenario.Record) float64 { return float64(r.Servers[0].RSSIdle) }
	StorePeak          Figure = func(r *scenario.Record) float64 { return float64(r.Servers[0].Peak) }
)

// data returns the size of the keys and values.
func data(r *scenario.Record) float64 {
	return float64(r.Parameters.Keys * (len(load.Key(0)) + r.Parameters.ValueSize))
}
