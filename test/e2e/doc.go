// Package e2e tests the built program from outside: it starts fanoutd as a
// process, talks to it with generated clients, stops, kills and restarts it, and
// compares what watchers received with what etcd itself says has happened.
//
// What is expected is never taken from fanoutd. The truth is etcd's history, read
// with etcd's own client from the first revision on, and package check judges
// every watcher's recording against it.
//
// Random choices come from a seed that each test prints. FANOUTD_SEED takes it
// back. When a test fails, the log of the server and the recordings of the
// watchers are kept, and the test says where.
package e2e
