// Package failures tests what subscribers see when something fails. It has one test for
// each row of this table. The tests use the built program and real etcd processes, which
// they kill, cut off, compact, fill and restore:
//
//	etcd leader lost, member restarted   a pause; bookmarks stop, the health of the
//	                                     resource turns NOT_SERVING after a grace time,
//	                                     "any" reads continue
//	link to one etcd member frozen       reads and watches use another member within seconds;
//	                                     a write that was sent over the link fails
//	etcd away from all servers           informers are stale, and stay so, although servers
//	                                     resume their watches
//	etcd watch compacted away            a DELTA in each stream; no stream ends
//	etcd restored from a backup          a new epoch: RESET in the stream
//	fanoutd killed                       clients resume at any server, at their position,
//	                                     without a snapshot
//	fanoutd stopped                      health first, then each stream ends with a last
//	                                     position
//	all fanoutd stopped in turn          behind a load balancer, each watcher resumes at
//	                                     another server with its first attempt
//	subscriber stuck                     only its own flow-control window fills; when it
//	                                     reads again, it catches up
//	disk full                            writes fail with a clear status; reads and
//	                                     watches continue
//	servers of a cluster cut off         the majority elects a leader; the others answer nothing
//	from each other                      stale; watches go on
//	server far behind its cluster        it gets the whole database; watches go on
//	server of a cluster damaged,         it stops, and says what helps; the others go on
//	or its disk full
//	disk of a server of a cluster slow   writes go on through all; a leader that is too slow
//	                                     is replaced
//	databases of a cluster full          all refuse writes until there is space in each; reads and
//	                                     watches continue
//	cluster upgraded                     one server after another: writes and watches go on
//	embedded etcd cannot go on           each stream ends with a last position, and fanoutd
//	                                     exits
//
// Each test has one subscriber over Watch and one over Subscribe. Without the race detector, its stream
// has hundreds of other watches, which are started and stopped all the time.
//
// The expected results come from etcd, and package check validates what subscribers
// received.
package failures
