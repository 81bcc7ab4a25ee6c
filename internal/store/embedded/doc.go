// Package embedded runs an etcd member inside this process.
//
// [Start] returns a [Member] that serves etcd's API to this process without a socket, and to
// others only on request. etcd expects a process, a disk and an operator of its own: where it
// would end the process, wait for ever, or use more memory or disk than there is, this package
// prevents it. A test in test/failures, or the one named, fails without each of these:
//
//	directory.Lock        a second process waits (TestDirectoryBelongsToOneProcess of package store)
//	directory.Check       etcd panics, exits or waits on damaged files: TestDamagedDataDirectory
//	panics on faults      so does a page that points beyond the end of the database: the same test
//	startLimit            no data is known with which etcd waits after directory.Check. The limit is for
//	                      the data that is not known (TestStartEndsAtItsLimit)
//	process.FatalErrors   the process ends without a last message to its watches: TestEmbeddedEtcdFails
//	isSnapshotOnFullDisk  a single server ends for lack of a few bytes: TestRaftSnapshotOnAFullDisk
//	raftSnapshots         the log has ten times its size, and so has the memory after a restart:
//	                      TestLargeValues
//	catchUpEntries        old entries fill the memory: TestLargeValues
//	purge                 old files fill the disk: TestLargeValues
//	walSegmentBytes       most of a small disk is taken in advance: TestDiskFilledByObjects
//	spareSegments         etcd cannot write its log on a full disk: TestDiskFilledByOthers; and it reads
//	                      what a crash has left in them: TestUnfinishedLogFiles
//	allocateDatabase      etcd cannot write its database on a full disk: TestDiskFilledByOthers
//	reserve               nothing can be deleted on a full disk: TestDiskFilledByOthers
//	defragmentedBytes     a full disk has no room to defragment data that is deleted
//	                      (TestDefragmentationNeedsNoSpaceForDeletedData)
//	rewriteDatabase       the old database takes the place of one that the leader has sent meanwhile
//	                      (TestADefragmentationKeepsSnapshotsAway)
//	clientRequests        watches of etcd's clients delay the stop (TestCloseEndsWatchesOfEtcdClients of
//	                      package store), and its clients fill the disk: TestDiskFilledByOthers
//	Live                  etcd's client passes each change through several goroutines, alone
//	                      (TestChangesOfOneMomentArriveTogether of package store)
//	Backlog               each watch loads its history at once (TestResumeFarBehindCostsLittle of
//	                      package direct)
//
// The packages below it have one purpose each: directory checks and locks a data directory, process starts etcd in it
// and makes errors of its fatal errors, disk asks for the free space, and recovery fills the directory while no member
// runs in it (docs/dev/cluster.md). Only recovery imports this package.
//
// # A single member
//
// Some of this is right only for a member without others: few entries in memory
// (catchUpEntries), the database of the start (Member.backend; a snapshot of a leader replaces it),
// raft snapshots and their number in raftSnapshots (a leader may send one), and a disk guard that
// sees only the writes of this process. The rest holds for a member of any cluster.
package embedded
