// Package check judges what a watcher saw against what really happened. It is
// used by tests only: by unit tests with histories made up by hand, by
// end-to-end tests with histories recorded from a running server, whatever the
// traffic was and whatever was broken on purpose meanwhile.
//
// Two recordings go in. A [History] is one watcher's: what it asked for, which
// watches it opened, in order, and every message it received. A [Truth] is etcd's
// own: every put and delete in order of revision, as a direct etcd watch tells it,
// and the [Conditions] under which the server had to work. Neither knows anything of
// gRPC or of the etcd client.
//
// Out comes an error that names the promise that was broken and the place where.
// There is one function per promise that a Watch makes, [Guarantees] lists them
// all, and [Validate] applies them all:
//
//	protocol      messages come in the documented order and form
//	ordered       revisions never decrease on a stream
//	unique        no event comes twice, nor after resuming at the last position
//	reliable      no event of the interest is missing between two positions
//	atomic        the events of one revision come together, or are marked partial,
//	              and a position never points inside them
//	resumable     a resume inside the window continues exactly there; outside of it
//	              a DELTA says what became of everything that changed since, as long
//	              as deletions are remembered
//	bookmarkable  nothing at or below a position comes after it
//	snapshot      a RESET brings exactly the state of one revision, which is not
//	              older than was asked for
//	filtered      every event is what the truth's change means for the interest, and
//	              replaying the history gives the truth's state
//	isolated      who reads at once hears of a change before many more are made
//	bounded       no message is larger than the limit, but for one event alone
//	honest        a stream ends with the reason, is never silent for longer than the
//	              watcher asked for, and does not speak of what it cannot know
//
// What an event is to a watcher follows from its view: the scope and the selectors,
// which a test gives as a function of its own, whether previous objects and values
// are shown, and whether what waits is merged. Each is computed here from the truth,
// in the plainest way there is.
//
// Reads have a judge of their own: [Consistent] judges a [Read].
//
// The promises are cut so that one fault breaks one of them where that is
// possible. An event that never comes is reliable's, or resumable's where it is
// missing from the REPLAY of a resume; one that comes too late is bookmarkable's,
// one that comes again unique's, one that looks wrong filtered's. Some faults
// break two promises, and then both functions say so: a lost last change of a key
// leaves a wrong state, too. Of isolated and bounded only a part can be seen in what
// one watcher received: that it was told in time while others were in trouble, and
// that what it was sent at a time was little. What the server spends on those who do
// not read, other tests look at.
//
// The functions believe their input. [NewTruth] refuses a truth that no etcd could
// have produced, and Validate refuses a history that no client could have
// recorded or that goes on where the truth ends, before anything is judged.
package check
