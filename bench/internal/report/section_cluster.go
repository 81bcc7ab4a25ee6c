package report

import "fmt"

// loaded are the columns of a cluster with watches at each server.
var loaded = append(common[:len(common):len(common)],
	column{"CPU ms/s", true, func(g, _ *Group) string { return spread(g.Range(UsedCPU)) }},
	column{"MB", true, megabytesOf(TotalResident)},
	column{"MB anonymous", true, megabytesOf(TotalAnonymous)},
	column{"peak MB", true, megabytesOf(TotalPeak)},
	column{"p50", true, median(EachP50, 1e-3)},
	column{"p99", true, median(EachP99, 1e-3)},
	column{"ack p99", true, median(AckP99, 1e-3)},
	wrong,
)

// killed are the columns of a subscriber, while another server is killed.
var killed = append(common[:len(common):len(common)],
	column{"kills", true, kills},
	column{"p99 before", true, median(BeforeP99, 1e-3)},
	column{"p99 after", true, median(AroundP99, 1e-3)},
	column{"max after", true, median(AroundMax, 1e-3)},
	column{"x", true, median(TimesAround, 1)},
	column{"p99 from ack before", true, median(AckBeforeP99, 1e-3)},
	column{"p99 from ack after", true, median(AckAroundP99, 1e-3)},
	column{"x", true, median(TimesAckAround, 1)},
	column{"failed", true, median(FailedWrites, 1)},
	column{"not applied", true, median(RefusedWrites, 1)},
	column{"resets", true, median(Replaced, 1)},
	wrong,
)

// paused are the columns of writers, while a server is killed.
var paused = append(common[:len(common):len(common)],
	column{"kills", true, kills},
	column{"p50", true, func(g, _ *Group) string { return spreadOf(g, PauseP50, 1e-6) }},
	column{"p99", true, func(g, _ *Group) string { return spreadOf(g, PauseP99, 1e-6) }},
	column{"max", true, median(PauseMax, 1e-6)},
	column{"failed", true, median(FailedWrites, 1)},
	column{"not applied", true, median(RefusedWrites, 1)},
)

// elected are the columns of a cluster that is as busy as it can be.
var elected = append(common[:len(common):len(common)],
	column{"minutes", true, median(Seconds, 1.0/60)},
	column{"per second", true, median(PerSecond, 1)},
	column{"p99", true, median(EachP99, 1e-3)},
	column{"ack p99", true, median(AckP99, 1e-3)},
	column{"elected", true, func(g, _ *Group) string { return spreadOf(g, Elected, 1) }},
	wrong,
)

const (
	aboutCluster = "CPU and memory are those of all servers together, memory at the end. Times are in ms, p50 and p99 at the slowest server."
	aboutKills   = "Times in ms to a subscriber of a server that does not fail, from the beginning of the write and from its acknowledgement. Failed writes are per kill, with those that are known not to be applied."
	aboutPauses  = "The longest time in s without an acknowledged write, of each writer at each kill. Failed writes are per kill, with those that are known not to be applied."
	aboutElected = "Times are in ms. Elected are the leaders that were elected meanwhile."
)

// kills is the number of kills of all runs.
func kills(g, _ *Group) string { return fmt.Sprint(len(g.Records) * g.Parameters.Kills) }

// spreadOf is the range of a figure in another unit.
func spreadOf(g *Group, f Figure, unit float64) string {
	r := g.Range(f)
	return spread(Range{r.Least * unit, r.Median * unit, r.Most * unit})
}
