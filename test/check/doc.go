// Package check checks recordings of watches and reads against the history of etcd. Only
// tests use it: unit tests with histories written by hand, and end-to-end tests with
// histories recorded from a running server, whatever the load and the injected faults were.
//
// Two recordings go in. A [History] belongs to one watcher: what it asked for, the watches
// that it opened, in order, and every message that it received. A [Truth] comes from etcd:
// every put and delete in order of revision, as a direct etcd watch delivers them, and the
// [Conditions] of the server. Neither depends on gRPC or on the etcd client.
//
// An error comes out. It names the broken guarantee and the place of the fault. There is
// one function per guarantee of a Watch. [Guarantees] lists them, and [Validate] applies
// all of them:
//
//	protocol      messages come in the documented order and form
//	ordered       revisions never decrease on a stream
//	unique        no event comes twice, nor after resuming at the last position
//	reliable      no event of the interest is missing between two positions
//	atomic        the events of one revision come together, or are marked partial,
//	              and a position never points inside a revision
//	resumable     a resume inside the window continues exactly there; outside of it
//	              a DELTA has everything that changed since, as long as deletions
//	              are remembered
//	bookmarkable  nothing at or below a position comes after it
//	snapshot      a RESET brings exactly the state of one revision, which is at
//	              least as new as requested
//	filtered      every event is the change as the interest sees it, and replaying
//	              the history gives the state of etcd
//	isolated      a watcher that reads at once gets a change before many more are made
//	bounded       no message is larger than the limit, except for a single event
//	honest        a stream ends with its reason, is never silent for longer than the
//	              watcher asked for, and sends no bookmark without the store
//
// The expected events follow from what the watcher asked for: the scope, the selectors
// (the test passes them as a function of its own), whether it wants previous objects and
// values, and whether pending events are merged. The package computes them from the truth
// in the simplest way.
//
// Reads have a checker of their own: [Consistent] checks a [Read].
//
// Subscribe streams have more guarantees, see [SubscriptionGuarantees]. [ValidateSubscription]
// checks a [Subscription].
//
// Where possible, one fault breaks one guarantee. A missing event breaks reliable, or
// resumable if it is missing from the REPLAY of a resume. An event that comes too late
// breaks bookmarkable, a repeated one unique, a malformed one filtered. Some faults break
// two guarantees, and both functions report them: if the last change of a key is lost, the
// state is wrong, too.
//
// Isolated and bounded can be checked only in part with the messages of one watcher: whether
// it got events in time while others were in trouble, and whether its messages were small.
// Other tests measure what clients that do not read cost the server.
//
// The functions trust their input. [NewTruth] refuses a truth that no etcd could have
// produced. Validate refuses a history that no client could have recorded, or that
// continues after the end of the truth.
package check
