package report

import "github.com/fanoutd/fanoutd/bench/internal/scenario"

// watchGoals are the goals for the cost of an event with very many interests, and on a stream of one
// watch.
var watchGoals = []Goal{
	{
		What: "CPU of all servers per event of one of 100000 interests, on 10 connections", Against: "with 10 interests", Want: 1.3, kind: ratioOf,
		of: point{scenario.Saturation, "100000 x 10000, one key each", "fanoutd (10000 a stream)", CPU},
		by: point{scenario.Saturation, "10 x 1, one key each", stream1, CPU},
	},
	{
		What: "CPU per delivery of the front server, 1000 x 1, 16 at once, 1 a stream", Against: "Watch", Want: 1.3, kind: ratioOf,
		of: point{scenario.Saturation, "1000 x 1, 16 at once", stream1, FrontCPU},
		by: point{scenario.Saturation, "1000 x 1, 16 at once", "fanoutd", FrontCPU},
	},
}
