// Package e2e tests the built program from outside: it starts fanoutd as a
// process, talks to it with generated clients, stops, kills and restarts it, and
// compares what watchers received with what etcd itself says has happened.
//
// What is expected is never taken from fanoutd. The truth is etcd's history, read
// with etcd's own client, and package check judges every watcher's recording and
// every list against it. What a selector picks is written down again, as a function.
//
// TestWatchersSeeExactlyWhatHappened does everything at once and at random: a world
// of writers, of watchers of every kind that come and go, stall and hop between
// servers, and of readers, in which servers are stopped and killed, etcd is killed,
// loses its leader or its majority, stays away until everybody has noticed, is
// compacted, cut off and frozen, and connections break. Its window and its memory of
// deletions are so small that coming back leads to every kind of catch-up; it says
// that it was too easy if one of them never happened. FANOUTD_SOAK=10m lets it go on,
// round after round.
//
// Random choices come from a seed that each test prints. FANOUTD_SEED takes it
// back. When a test fails, the log of the server and the recordings of the
// watchers are kept, and the test says where.
package e2e
