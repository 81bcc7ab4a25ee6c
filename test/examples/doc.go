// Package examples runs the subscribers of examples/ in other languages against a
// real fanoutd: through snapshots, live changes, restarts of both sides, dead
// connections and catch-ups that are cut off. Its tests need what examples/install
// installs, so they are skipped unless FANOUTD_TEST_EXAMPLES is set, which
// `make test-examples` does.
package examples
