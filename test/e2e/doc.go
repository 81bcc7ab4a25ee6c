// Package e2e tests the built program from outside: it starts fanoutd as a process, calls
// it with generated clients, stops, kills and restarts it, and compares what watchers
// received with etcd's history.
//
// The expected results never come from fanoutd. The truth is etcd's history, read with
// etcd's own client, and package check validates every watcher's recording and every list
// against it. The meaning of each selector is written again, as a function.
//
// TestWatchersSeeExactlyWhatHappened does everything at once and at random. Writers write
// and readers read, and watchers of every kind come and go, stall, and move between
// servers. Meanwhile servers are stopped and killed, and connections break. etcd is
// killed, compacted, cut off and frozen, loses its leader or its majority, and stays away
// until every server has noticed. The window and the memory of deletions are so small
// that returning watchers need every kind of catch-up; the test fails as too easy if one
// kind never happened. FANOUTD_SOAK=10m repeats it, round after round.
//
// Half of the watchers use Watch, and half share Subscribe streams. 200 more are on one Subscribe
// stream, which stops reading at random.
//
// TestPartitions does the same while parts of the network fail. Every connection between
// etcd's three members, and from two servers to each member, goes through a link that the
// test freezes, cuts, delays or makes half-open. It also measures the longest outage of reads,
// writes and watches.
//
// Random choices come from a seed that each test prints. FANOUTD_SEED sets the seed. When
// a test fails, it keeps the server's log and the watchers' recordings, and prints where.
package e2e
