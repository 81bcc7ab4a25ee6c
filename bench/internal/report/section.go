package report

import (
	"fmt"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// section is a kind of scenario with figures of its own.
type section struct {
	title   string
	about   string
	columns []column
	groups  []*Group
}

// column is a column of its table.
type column struct {
	title string
	right bool
	cell  func(g *Group, floor *Group) string
}

var common = []column{
	{"case", false, func(g, _ *Group) string { return Case(g.Parameters) }},
	{"peer", false, func(g, _ *Group) string { return System(g.Parameters) }},
	{"runs", true, func(g, _ *Group) string { return fmt.Sprint(len(g.Records)) }},
}

// events are the columns of scenarios that write.
var events = append(common[:len(common):len(common)],
	column{"CPU", true, median(CPU, 1)},
	column{"front", true, func(g, _ *Group) string { return spread(g.Range(FrontCPU)) }},
	column{"x floor", true, ratio(FrontCPU)},
	column{"per second", true, median(PerSecond, 1)},
	column{"p50", true, median(EachP50, 1e-3)},
	column{"p99", true, median(EachP99, 1e-3)},
	column{"ack p99", true, median(AckP99, 1e-3)},
	column{"writes", true, median(Writes, 1)},
	column{"bytes", true, median(Bytes, 1)},
	column{"kB idle", true, median(Memory, 1e-3)},
	wrong,
)

// storms are the columns of startup and resume, where all watchers begin at once.
var storms = append(common[:len(common):len(common)],
	column{"seconds", true, func(g, _ *Group) string { return spread(g.Range(Seconds)) }},
	column{"x floor", true, ratio(Seconds)},
	column{"CPU s", true, median(TotalCPU, 1)},
	column{"front s", true, median(FrontTotal, 1)},
	column{"x floor", true, ratio(FrontTotal)},
	column{"MB grown", true, median(Growth, 1e-6)},
	column{"per second", true, median(PerSecond, 1)},
	wrong,
)

// idle are the columns of the idle scenario.
var idle = append(common[:len(common):len(common)],
	column{"MB", true, func(g, _ *Group) string {
		return spread(g.Range(func(r *scenario.Record) float64 { return Resident(r) / 1e6 }))
	}},
	column{"kB each", true, median(Memory, 1e-3)},
	column{"goroutines each", true, median(Goroutines, 1)},
	column{"CPU ms/s", true, median(IdleCPU, 1)},
	column{"event to all", true, median(EachMax, 1e-3)},
	column{"peak MB", true, median(Peak, 1e-6)},
	column{"MB left", true, median(Left, 1e-6)},
	column{"goroutines left", true, median(Remaining, 1)},
	column{"watches left", true, median(WatchesLeft, 1)},
	column{"client MB", true, median(ClientPeak, 1e-6)},
	wrong,
)

// opening are the columns of the open scenario.
var opening = append(common[:len(common):len(common)],
	column{"seconds", true, func(g, _ *Group) string { return spread(g.Range(Seconds)) }},
	column{"CPU s", true, func(g, _ *Group) string { return spread(g.Range(TotalCPU)) }},
	column{"front s", true, median(FrontTotal, 1)},
	column{"MB grown", true, median(Growth, 1e-6)},
	column{"per second", true, median(PerSecond, 1)},
	column{"kB each", true, median(Memory, 1e-3)},
	wrong,
)

// lists are the columns of the list scenario.
var lists = append(common[:len(common):len(common)],
	column{"CPU ms", true, median(CPU, 1e-3)},
	column{"front ms", true, func(g, _ *Group) string {
		return spread(g.Range(func(r *scenario.Record) float64 { return FrontCPU(r) / 1000 }))
	}},
	column{"p50", true, median(EachP50, 1e-3)},
	column{"p99", true, median(EachP99, 1e-3)},
	column{"max", true, median(EachMax, 1e-3)},
	column{"per second", true, median(PerSecond, 1)},
	column{"MB grown", true, median(Growth, 1e-6)},
	wrong,
)

// calling are the columns of the calls.
var calling = append(common[:len(common):len(common)],
	column{"CPU", true, func(g, _ *Group) string { return spread(g.Range(CPU)) }},
	column{"front", true, median(FrontCPU, 1)},
	column{"per second", true, func(g, _ *Group) string { return spread(g.Range(PerSecond)) }},
	column{"p50", true, median(EachP50, 1e-3)},
	column{"p99", true, median(EachP99, 1e-3)},
	column{"client CPU", true, median(ClientCPU, 1)},
)

// stored are the columns of the state scenario.
var stored = append(common[:len(common):len(common)],
	column{"MB anonymous", true, megabytesOf(FilledAnonymous)},
	column{"MB of files", true, megabytesOf(FilledPages)},
	column{"x data", true, median(FilledToData, 1)},
	column{"restarted: MB anonymous", true, megabytesOf(RestartedAnonymous)},
	column{"MB of files", true, megabytesOf(RestartedPages)},
	column{"x data", true, median(RestartedToData, 1)},
	column{"start s", true, func(g, _ *Group) string { return spread(g.Range(Seconds)) }},
	column{"CPU s", true, median(TotalCPU, 1)},
	column{"store MB", true, ofStore(StoreSteady)},
	column{"its peak", true, ofStore(StorePeak)},
)

// megabytesOf returns a cell with the median and range of a figure in bytes.
func megabytesOf(f Figure) func(g, floor *Group) string {
	return func(g, _ *Group) string {
		return spread(g.Range(func(r *scenario.Record) float64 { return f(r) / 1e6 }))
	}
}

// ofStore returns a cell with a figure of the process that stores the data, unless that is the front
// server.
func ofStore(f Figure) func(g, floor *Group) string {
	return func(g, floor *Group) string {
		if len(g.Records[0].Servers) < 2 {
			return ""
		}
		return megabytesOf(f)(g, floor)
	}
}

var wrong = column{"wrong", false, func(g, _ *Group) string { return g.Wrong() }}

const (
	aboutEvents = "CPU is in µs per delivery, of all servers and of the front server. Times are in ms. Writes and bytes are per delivery, memory is per idle watcher."
	aboutIdle   = "Memory is that of the front server with all watchers, of all servers per watcher, the peak of the front server, what it keeps when the watchers have left, and the peak of the watching process. CPU is that of all servers while nothing is written. The time in ms is until one event has reached all watchers."
	aboutOpen   = "Seconds until the server has confirmed all watches, which begin with the next change. CPU is in seconds, of all servers and of the front server. Growth is the largest growth of the front server's memory, and memory per watch is that of all servers. The connections exist before."
	aboutLists  = "CPU is per list, of all servers and of the front server. Times are those of a list. Growth is the largest growth of the front server's memory."
	aboutState  = "Memory is that of the front server with all objects, and after a restart: anonymous memory, and the mapped pages of files, which the system can drop. \"x data\" is the anonymous memory in comparison with keys and values. The start lasts until a linearizable read. CPU is that of all servers meanwhile. Memory of the store is that before, and its peak during the start."
	aboutCalls  = "CPU is in µs per call, of all servers, of the front server and of the client. Times are in ms."
	aboutStorms = "Seconds until all watchers have their first state. CPU is in seconds, of all servers and of the front server. Growth is the largest growth of the front server's memory. The connections exist before."
)

// sections returns the sections that have records.
func sections(groups []*Group) []section {
	all := []struct {
		scenario string
		section
	}{
		{scenario.Saturation, section{"As fast as it is delivered", aboutEvents, events, nil}},
		{scenario.Steady, section{"At a rate", aboutEvents, events, nil}},
		{scenario.Startup, section{"All watchers connect at once", aboutStorms, storms, nil}},
		{scenario.Resume, section{"All watchers reconnect at once", aboutStorms, storms, nil}},
		{scenario.Open, section{"All watches are opened at once", aboutOpen, opening, nil}},
		{scenario.Idle, section{"Idle watchers", aboutIdle, idle, nil}},
		{scenario.Lists, section{"Lists", aboutLists, lists, nil}},
		{scenario.Calls, section{"Calls", aboutCalls, calling, nil}},
		{scenario.State, section{"Many objects", aboutState, stored, nil}},
		{scenario.ClusterLoad, section{"A cluster with watches at each server", aboutCluster, loaded, nil}},
		{scenario.ClusterKill, section{"A subscriber, while another server is killed", aboutKills, killed, nil}},
		{scenario.ClusterOutage, section{"Writers, while a server is killed", aboutPauses, paused, nil}},
		{scenario.ClusterFanOut, section{"A cluster, as fast as it delivers", aboutElected, elected, nil}},
	}
	var filled []section
	for _, s := range all {
		for _, g := range groups {
			if g.Parameters.Scenario == s.scenario {
				s.groups = append(s.groups, g)
			}
		}
		if len(s.groups) > 0 {
			filled = append(filled, s.section)
		}
	}
	return filled
}

func (s section) rows() [][]string {
	var rows [][]string
	for _, g := range s.groups {
		var row []string
		floor := floorOf(g, s.groups)
		for _, c := range s.columns {
			row = append(row, c.cell(g, floor))
		}
		rows = append(rows, row)
	}
	return rows
}

// median returns a cell with the median of a figure in another unit.
func median(f Figure, unit float64) func(g, floor *Group) string {
	return func(g, _ *Group) string { return number(g.Range(f).Median * unit) }
}

// ratio returns a cell that compares a figure with the floor's.
func ratio(f Figure) func(g, floor *Group) string {
	return func(g, floor *Group) string {
		if floor == nil || floor.Range(f).Median == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", g.Range(f).Median/floor.Range(f).Median)
	}
}
