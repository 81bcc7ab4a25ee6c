// Package clients tests the Go client under faults. Servers are killed, stopped and
// restarted while etcd is compacted or restored from a backup. Informers restart with
// their files, some of them damaged. A proxy in front of each server drops, delays,
// freezes and half-closes connections. One resource is cached, the other is not.
//
// TestInformersSurviveFaults runs in rounds, and each kind of fault happens at least once
// in a run. In each round some faults happen while objects change. Then the writer stops,
// and each subscriber must reach the state that a List returns. The calls of each handler
// must be a possible history of each key: Add, any number of Update with growing
// revisions, Delete, and so on again. Only a new epoch may lower a revision. Some handlers
// fail, or are busy while the faults happen.
//
// TestProxiesCutIdleConnections has proxies that cut connections without traffic.
//
// With FANOUTD_TEST_CLIENTS, the clients of other languages take part, in processes of their own.
package clients
