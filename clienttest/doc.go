// Package clienttest runs a server in memory, for unit tests of programs that use package client.
//
//	func TestRouter(t *testing.T) {
//		s := clienttest.NewServer(t, "config")
//		config := s.Client().Resource("config")
//		router := NewRouter(config) // the code under test
//		...
//		_, err := config.Put(t.Context(), "routes/eu", client.JSON(Route{Backend: "b1"}))
//		...
//		s.ExpirePositions()
//		...
//	}
//
// It is the real server, with all of its semantics: revisions, preconditions, transactions,
// selectors, Watch and Subscribe. Only etcd is replaced, by a store in memory. A test needs neither
// a database nor a port, and starts in a millisecond.
//
// The connections are in memory as well, so a test may run in a bubble of [testing/synctest]. There,
// synctest.Wait waits until informers and handlers have seen everything, and minutes of retries pass
// at once. Start the server within the bubble.
//
// A [Server] can do what a real one does too rarely for a test: lose its connections or etcd, refuse
// requests, expire positions, and begin a new epoch.
//
// A program that does not import this package does not link the server.
package clienttest
