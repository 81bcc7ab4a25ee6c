package report

import (
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// clusterGoals are the goals for three servers that are their own etcd cluster.
var clusterGoals = slices.Concat(
	besideEtcds("idle"), besideEtcds("100/s"), besideEtcds("1000/s"),
	[]Goal{
		unnoticed("from writing to a subscriber", scenario.VictimFollower, TimesAround),
		unnoticed("from writing to a subscriber", scenario.VictimLeader, TimesAround),
		unnoticed("from the acknowledgement to a subscriber", scenario.VictimLeader, TimesAckAround),
		outage("p50", PauseP50), outage("p99", PauseP99),
		{
			What: "leaders elected during 10000 x 100, 16 at once", Want: 0, kind: timesData,
			of: point{scenario.ClusterFanOut, "10000 x 100, 16 at once", peer.FanoutdCluster, Elected},
		},
	},
)

// besideEtcds returns the goals for memory and CPU beside three fanoutd with three etcds.
func besideEtcds(load string) []Goal {
	name := "3000 x 100, " + load + ", 1024 B, one key each"
	goal := func(what string, f Figure) Goal {
		return Goal{
			What: what + " of all servers, " + name, Against: "three etcd and three fanoutd", Want: 1, kind: ratioOf,
			of: point{scenario.ClusterLoad, name, peer.FanoutdCluster + shared, f}, by: point{scenario.ClusterLoad, name, peer.FanoutdsBeforeEtcds + shared, f},
		}
	}
	return []Goal{goal("memory", TotalResident), goal("CPU", UsedCPU)}
}

const shared = " (100 a stream)"

// unnoticed returns the goal that a subscriber does not notice the kill of another server.
func unnoticed(what, victim string, f Figure) Goal {
	return Goal{
		What: fmt.Sprintf("p99 %s of another server, %s killed", what, victim), Against: "before", Want: 3, kind: timesData,
		of: point{scenario.ClusterKill, fmt.Sprintf("1000 x 1000, 100/s, 1024 B, %s killed, one key each", victim), peer.FanoutdCluster + " (fanoutd)", f},
	}
}

func outage(name string, f Figure) Goal {
	const writers = "8 writers, 1024 B, leader killed"
	return Goal{
		What: name + " of the pause of a writer, " + writers, Against: peer.EtcdCluster, Want: 1, kind: ratioOf,
		of: point{scenario.ClusterOutage, writers, peer.FanoutdCluster, f}, by: point{scenario.ClusterOutage, writers, peer.EtcdCluster, f},
	}
}

// The figures of clusters. Memory is in bytes, and times are in microseconds.
var (
	TotalResident  Figure = func(r *scenario.Record) float64 { return sum(r, func(s scenario.Server) int64 { return s.RSSEnd }) }
	TotalAnonymous Figure = func(r *scenario.Record) float64 { return sum(r, func(s scenario.Server) int64 { return s.AnonEnd }) }
	TotalPeak      Figure = func(r *scenario.Record) float64 { return sum(r, func(s scenario.Server) int64 { return s.Peak }) }
	// UsedCPU is in milliseconds per second of all servers.
	UsedCPU   Figure = func(r *scenario.Record) float64 { return TotalCPU(r) * 1000 / r.Elapsed.Seconds() }
	BeforeP99 Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Before.P99) }
	AroundP99 Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Around.P99) }
	AroundMax Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Around.Max) }
	// TimesAround is the p99 after kills in comparison with that before.
	TimesAround    Figure = func(r *scenario.Record) float64 { return times(r.Cluster.Around, r.Cluster.Before) }
	AckBeforeP99   Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.AckOf.Before.P99) }
	AckAroundP99   Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.AckOf.Around.P99) }
	TimesAckAround Figure = func(r *scenario.Record) float64 { return times(r.Cluster.AckOf.Around, r.Cluster.AckOf.Before) }
	PauseP50       Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Pauses.P50) }
	PauseP99       Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Pauses.P99) }
	PauseMax       Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Pauses.Max) }
	Elected        Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Elected) }
	Replaced       Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Replaced) }
	// FailedWrites and RefusedWrites are per kill.
	FailedWrites  Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Failed) / float64(r.Parameters.Kills) }
	RefusedWrites Figure = func(r *scenario.Record) float64 { return float64(r.Cluster.Refused) / float64(r.Parameters.Kills) }
)

func sum(r *scenario.Record, of func(scenario.Server) int64) (total float64) {
	for _, s := range r.Servers {
		total += float64(of(s))
	}
	return total
}

// times returns the ratio of two p99.
func times(of, by delivery.Summary) float64 { return float64(of.P99) / float64(max(by.P99, 1)) }
