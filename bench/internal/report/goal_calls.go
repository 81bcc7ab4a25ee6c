package report

import (
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// The systems of these goals.
const (
	beforeEtcd = "fanoutd"
	embedded   = "fanoutd-embedded"
)

const openedByDefault = shared10000 + ", default limits"

// callGoals are the goals for unary calls, and for what a client may do with the default limits.
var callGoals = slices.Concat(
	readGoals(beforeEtcd, 1.9), readGoals(embedded, 1),
	writeGoals(beforeEtcd, 2, 0.55, "etcd"), writeGoals(embedded, 1.5, 0.75, "etcd-embedded"),
	historyGoals(beforeEtcd), historyGoals(embedded),
	[]Goal{
		{
			What: "rate of " + call(calls.MethodGetAny, 64) + ", default limits", Against: "without limits", Want: 0.95, AtLeast: true, kind: ratioOf,
			of: point{scenario.Calls, call(calls.MethodGetAny, 64) + ", default limits", beforeEtcd, PerSecond},
			by: point{scenario.Calls, call(calls.MethodGetAny, 64), beforeEtcd, PerSecond},
		},
		{
			What: "seconds until 10000 watches are open, 100 a stream, default limits", Against: "etcd (100 a stream)", Want: 1, kind: ratioOf,
			of: point{scenario.Open, openedByDefault, stream100, Seconds}, by: point{scenario.Open, shared10000, "etcd (100 a stream)", Seconds},
		},
		{
			What: "CPU of all servers to open 10000 watches, 100 a stream, default limits", Against: "etcd (100 a stream)", Want: 1, kind: ratioOf,
			of: point{scenario.Open, openedByDefault, stream100, TotalCPU}, by: point{scenario.Open, shared10000, "etcd (100 a stream)", TotalCPU},
		},
	},
)

// call returns the case of a method with so many calls at once.
func call(method string, atOnce int) string { return fmt.Sprintf("%s, %d at once", method, atOnce) }

// readGoals returns the goals for reads from a fanoutd. slowest is the largest ratio of the times of
// a single linearizable read, to etcd's.
func readGoals(system string, slowest float64) []Goal {
	at := func(method string, atOnce int, by string, f Figure) (of, other point) {
		return point{scenario.Calls, call(method, atOnce), system, f}, point{scenario.Calls, call(method, atOnce), by, f}
	}
	anyOld := Goal{What: "CPU of all servers, " + call(calls.MethodGetAny, 64) + ", " + system, Against: "etcd", Want: 0.6, kind: ratioOf}
	anyOld.of, anyOld.by = at(calls.MethodGetAny, 64, "etcd", CPU)
	added := Goal{What: "CPU of the front server, " + call(calls.MethodGetAny, 64) + ", " + system, Against: "empty handler", Want: 10, kind: differenceOf}
	added.of = point{scenario.Calls, call(calls.MethodGetAny, 64), system, FrontCPU}
	added.by = point{scenario.Calls, call(calls.MethodEmpty, 64), "grpc", FrontCPU}
	linearizable := Goal{What: "CPU of all servers, " + call(calls.MethodGet, 64) + ", " + system, Against: "etcd", Want: 0.9, kind: ratioOf}
	linearizable.of, linearizable.by = at(calls.MethodGet, 64, "etcd", CPU)
	single := Goal{What: "p50 of " + call(calls.MethodGet, 1) + ", " + system, Against: "etcd", Want: slowest, kind: ratioOf}
	single.of, single.by = at(calls.MethodGet, 1, "etcd", EachP50)
	return []Goal{anyOld, added, linearizable, single}
}

// writeGoals returns the goals for writes without a precondition: the largest ratio of the CPU time to
// etcd's, and the smallest ratio of the rate to that of a store.
func writeGoals(system string, cpu, rate float64, store string) []Goal {
	var all []Goal
	for _, atOnce := range []int{16, 64} {
		c := call(calls.MethodPut, atOnce)
		all = append(all, Goal{
			What: "CPU of all servers, " + c + ", " + system, Against: "etcd", Want: cpu, kind: ratioOf,
			of: point{scenario.Calls, c, system, CPU}, by: point{scenario.Calls, c, "etcd", CPU},
		}, Goal{
			What: "rate of " + c + ", " + system, Against: store, Want: rate, AtLeast: true, kind: ratioOf,
			of: point{scenario.Calls, c, system, PerSecond}, by: point{scenario.Calls, c, store, PerSecond},
		})
	}
	return all
}

// historyGoals returns the goals for writes with a history, beside those without.
func historyGoals(system string) []Goal {
	const without, with = "Put, 16 at once, 1024 B", "Put, 16 at once, 1024 B, with history"
	goal := func(what string, want float64, f Figure) Goal {
		return Goal{
			What: what + " of " + with + ", " + system, Against: "without", Want: want, kind: ratioOf,
			of: point{scenario.Calls, with, system, f}, by: point{scenario.Calls, without, system, f},
		}
	}
	return []Goal{goal("CPU of all servers", 1.3, CPU), goal("p50", 1.1, EachP50)}
}
