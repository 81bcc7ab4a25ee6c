// Package examples runs the commands of examples/README.md and of the pages of the clients in docs/ as they
// are written, against a real fanoutd. The tests need what examples/install installs, so they are skipped
// unless FANOUTD_TEST_EXAMPLES is set. `make test-examples` sets it.
package examples
