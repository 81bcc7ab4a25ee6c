// Package behaviour tests that the clients behave as the table "How the clients behave" of docs/clients/other.md says.
//
// TestBehaviour has a subtest for each row of the table, with the name of the row, and in it one for each language. A
// test runs the client as a program, over real sockets, against real servers: a fanoutd behind a proxy that can answer
// in its place, the scripted server of the conformance kit, and listeners that accept connections and stay silent.
//
// The programs are goclient, clients/python/behaviour.py and clients/node/behaviour/main.ts. Package driver describes
// their commands. FANOUTD_TEST_CLIENTS names the languages that take part besides Go, with commas between:
//
//	FANOUTD_TEST_CLIENTS=python,node go test ./test/behaviour -run 'TestBehaviour/deadline'
//
// Tests assert counts, orders and values. Where the table names a delay, they assert that the client waits at least so
// long, and that it does not wait for the much longer time of a client without the rule. The second bound grows with the
// load of the machine. For the first one, the time begins before the client can know what it waits for.
package behaviour
