// Package failures tests what subscribers see when something fails. There is one
// test for each row of this table, against the built program and real etcd
// processes that are killed, cut off, compacted, filled and restored:
//
//	etcd leader lost, member restarted   nothing but a pause; bookmarks stop, health
//	                                     of the resource turns NOT_SERVING after a
//	                                     grace time, "any" reads go on
//	etcd watch compacted away            differences as events; nobody is cut off
//	etcd restored from a backup          a new epoch: RESET in the stream
//	fanoutd killed                       clients resume elsewhere or here, at their
//	                                     position, without a snapshot
//	fanoutd stopped                      health first, then streams end, each with a
//	                                     last position
//	subscriber stuck                     only its own flow-control window fills; when
//	                                     it reads again it catches up
//	disk full                            writes fail with a clear status; reads and
//	                                     watches go on
//
// What is expected is taken from etcd itself, and package check judges what
// subscribers saw.
package failures
