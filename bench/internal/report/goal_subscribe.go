package report

import "github.com/fanoutd/fanoutd/bench/internal/scenario"

// The systems of these goals: many watches on a stream, see System.
const (
	stream1    = "fanoutd (1 a stream)"
	stream100  = "fanoutd (100 a stream)"
	stream1000 = "fanoutd (1000 a stream)"
	goClient   = "fanoutd (fanoutd)"
)

// The cases of these goals.
const (
	shared10000 = "10000 x 100"
	keys1000    = "1000 x 100, 16 at once, 30000 writes, one key each"
	unwatched   = "no watchers, 16 at once, 30000 writes"
	million     = "1000000 x 1000, from the state, bookmarks every 10s, reports every 10s" // what the Go client does by default, with more reports
	millionGo   = "1000000 x 1000"
	applying    = "1000 x 1, 50/s"
)

// subscribeGoals are the goals for streams with many watches.
var subscribeGoals = []Goal{
	{
		What: "CPU per delivery of all servers, 10000 x 100, 100 a stream", Against: "nats", Want: 0.5, kind: ratioOf,
		of: point{scenario.Saturation, shared10000, stream100, CPU}, by: point{scenario.Saturation, shared10000, "nats", CPU},
	},
	{
		What: "CPU per delivery of all servers, 10000 x 100, 100 a stream", Against: "floor", Want: 1.2, kind: ratioOf,
		of: point{scenario.Saturation, shared10000, stream100, CPU}, by: point{scenario.Saturation, shared10000, "floor", CPU},
	},
	{
		What: "CPU of the front server above that of the writes, 1000 x 100, 16 at once, one key each, 100 a stream", Against: "a stream each", Want: 0.5, kind: ratioOf,
		of:   point{scenario.Saturation, keys1000, stream100, CPUPerWrite},
		by:   point{scenario.Saturation, keys1000, "fanoutd", CPUPerWrite},
		base: point{scenario.Saturation, unwatched, "fanoutd", CPUPerWrite},
	},
	{
		What: "seconds until 10000 watches are open, 100 a stream", Against: "etcd (100 a stream)", Want: 1, kind: ratioOf,
		of: point{scenario.Open, shared10000, stream100, Seconds}, by: point{scenario.Open, shared10000, "etcd (100 a stream)", Seconds},
	},
	{
		What: "CPU of all servers to open 10000 watches, 100 a stream", Against: "etcd (100 a stream)", Want: 1, kind: ratioOf,
		of: point{scenario.Open, shared10000, stream100, TotalCPU}, by: point{scenario.Open, shared10000, "etcd (100 a stream)", TotalCPU},
	},
	{
		What: "memory of the server per idle watch, 200000 x 1000, 1000 a stream", Want: 600, kind: bytesOf,
		of: point{scenario.Idle, "200000 x 1000", stream1000, PerWatch},
	},
	{
		What: "memory of the server per idle watch, 200000 x 1000, one key each, 1000 a stream", Want: 2000, kind: bytesOf,
		of: point{scenario.Idle, "200000 x 1000, one key each", stream1000, PerWatch},
	},
	largest("1000 a stream", million, stream1000), largest("the Go client", millionGo, goClient),
	{
		What: "time until an event has reached a million watches, 1000 a stream", Want: 500, kind: milliseconds,
		of: point{scenario.Idle, million, stream1000, EachMax},
	},
	released("1000 a stream", million, stream1000), released("the Go client", millionGo, goClient),
	{
		What: "CPU of the front server per event of one watch of a stream with 10000", Against: "with 10", Want: 1.2, kind: ratioOf,
		of: point{scenario.Saturation, "10000 x 10000, one key each", "fanoutd (10000 a stream)", FrontCPU},
		by: point{scenario.Saturation, "10 x 10, one key each", "fanoutd (10 a stream)", FrontCPU},
	},
	{
		What: "CPU of the front server, 1000 subscribers that apply 50 events a second and report every second", Against: "without reports", Want: 1.1, kind: ratioOf,
		of: point{scenario.Steady, applying + ", reports every 1s", stream1, FrontTotal}, by: point{scenario.Steady, applying, stream1, FrontTotal},
	},
}

// largest returns the goal for the memory of the server with a million idle watches.
func largest(how, what, system string) Goal {
	return Goal{
		What: "largest memory of the server with a million idle watches, " + how, Want: 1000, kind: megabytes,
		of: point{scenario.Idle, what, system, Peak},
	}
}

// released returns the goal that the server keeps nothing when a million watches have left: no
// watch, no goroutine but a few of other causes, and little memory.
func released(how, what, system string) Goal {
	return Goal{
		What: "memory that the server keeps when a million watches have left, " + how, Want: 100, kind: megabytes,
		of: point{scenario.Idle, what, system, Kept},
	}
}
