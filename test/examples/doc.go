// Package examples tests the subscribers in examples/ against a real fanoutd. The tests
// cover snapshots, live changes, restarts of both sides, dead connections and interrupted
// catch-ups. They need what examples/install installs, so they are skipped unless
// FANOUTD_TEST_EXAMPLES is set. `make test-examples` sets it.
package examples
