package client

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// WaitStatus is what [Wait] knows at one moment.
type WaitStatus struct {
	// Revision is the revision that the watches must apply.
	Revision int64
	// Ended says that Wait ends with this status: the quorum is reached, or too many watches have failed.
	Ended bool
	// Newest is the newest revision of the resource that a server is known to have. If it is before
	// Revision, that revision may not exist yet. 0: unknown.
	Newest int64
	// Watches is the number of affected watches of the servers that answer. The servers that
	// do not answer may have more.
	Watches int64
	// RecentWatches is the largest value of Watches within the last [WaitOptions.Settle]. If it
	// is larger than Watches, some watches have ended and may come back.
	RecentWatches int64
	// Applied is how many watches have applied the revision.
	Applied int64
	// Required is how many must have applied it.
	Required int64
	// Failed is how many have attempted the revision, have not applied it, and have reported an
	// error.
	Failed int64
	// Pending are the watches that have not applied the revision: failed ones first, then others
	// with an error, then the oldest. Each server names 100 at most.
	Pending []PendingWatch
	// NotReporting is how many watches do not count because they do not report. Uncounted are the
	// oldest of them. Each server names 20 at most.
	NotReporting int64
	Uncounted    []PendingWatch
	// Servers are the servers, in the order of [WaitOptions.Servers].
	Servers []WaitServer
}

// WaitServer is what [Wait] knows of one server.
type WaitServer struct {
	// Address is [Server.Address].
	Address string
	// Answered says that the server has answered at least once.
	Answered bool
	// Answering says that the connection to the server works and that the numbers are its
	// current ones. Otherwise they are its last ones, and the status does not count them.
	Answering bool
	// Err is why the server does not answer. It is nil before the first attempt has failed.
	Err error
	// Watches, Applied, Failed and NotReporting are as in [WaitStatus], for the watches of this server.
	Watches, Applied, Failed, NotReporting int64
}

// PendingWatch is a watch that has not applied a revision.
type PendingWatch struct {
	// Server is the address of its server.
	Server string
	// ID identifies the watch among those of all servers.
	ID string
	// Instance and Labels name the program that watches, if it has named itself.
	Instance string
	Labels   map[string]string
	// Identity, Peer and UserAgent are those of its client. Any of them may be empty.
	Identity, Peer, UserAgent string
	// Since is when the watch began.
	Since time.Time
	// Applied is the position that the watch has reported as applied. Its revision is 0 if it
	// has never reported one.
	Applied Position
	// AppliedLag is how long the oldest event after Applied has waited.
	AppliedLag time.Duration
	// Err is the last error that the watch has reported, or nil.
	Err *Error
	// Failed says that the watch has attempted the revision, so Err counts. Otherwise the error is
	// an earlier one, and the revision may be what corrects it.
	Failed bool
	// ErrTime is when it was reported.
	ErrTime time.Time
	// FailedKeys are the keys of the objects that the watch cannot apply. Empty without an error,
	// and if the watch has not named them.
	FailedKeys []string
}

// Name returns the most telling name of the watch: the instance; else the identity and address
// of the client; else the id.
func (p *PendingWatch) Name() string {
	return cmp.Or(p.Instance, strings.TrimSpace(p.Identity+" "+p.Peer), p.ID)
}

func pendingWatchOf(server string, s *fanoutv1.WatcherStatus) PendingWatch {
	p := PendingWatch{
		Server: server, ID: s.GetId(), Instance: s.GetSubscriber().GetInstance(), Labels: s.GetSubscriber().GetLabels(),
		Identity: s.GetIdentity(), Peer: s.GetPeer(), UserAgent: s.GetUserAgent(), Since: s.GetSince().AsTime(),
		Applied: positionOf(s.GetApplied()), AppliedLag: s.GetAppliedLag().AsDuration(), Err: ErrorOfStatus(s.GetError()), FailedKeys: s.GetFailedKeys(),
	}
	if p.Err != nil {
		p.ErrTime = s.GetErrorTime().AsTime()
	}
	return p
}

// comparePending orders watches as the servers do.
func comparePending(a, b PendingWatch) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), a.Since.Compare(b.Since))
}

func (p *PendingWatch) rank() int {
	switch {
	case p.Failed:
		return 0
	case p.Err != nil:
		return 1
	}
	return 2
}

// Missing returns the servers that do not answer.
func (s *WaitStatus) Missing() []WaitServer {
	return slices.DeleteFunc(slices.Clone(s.Servers), func(v WaitServer) bool { return v.Answering })
}

// String returns the numbers in one line, such as "3 of 5 watches have applied revision 7", and whether
// the revision exists.
func (s *WaitStatus) String() string {
	text := fmt.Sprintf("%d of %d watches have applied revision %d", s.Applied, s.Watches, s.Revision)
	if s.Watches == 1 {
		text = fmt.Sprintf("%d of 1 watch has applied revision %d", s.Applied, s.Revision)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	if s.Required > s.Applied {
		text += fmt.Sprintf(", want %d", s.Required)
	}
	if gone := s.RecentWatches - s.Watches; gone > 0 {
		text += fmt.Sprintf(", %d ended recently", gone)
	}
	switch s.NotReporting {
	case 0:
	case 1:
		text += ", 1 does not report"
	default:
		text += fmt.Sprintf(", %d do not report", s.NotReporting)
	}
	for _, v := range s.Missing() {
		text += ", no answer from " + v.Address
	}
	if 0 < s.Newest && s.Newest < s.Revision {
		text += fmt.Sprintf("; revision %d does not exist yet, or no server has received it: the newest is %d", s.Revision, s.Newest)
	}
	return text
}

// Detail returns what String returns, and the first watches that have not applied the revision.
func (s *WaitStatus) Detail() string {
	text := s.String()
	if pending := s.Watches - s.Applied; pending > 0 {
		var names []string
		for _, p := range s.Pending {
			names = append(names, p.Name())
		}
		text += "; not applied by " + firstFew(names, pending, ", ")
	}
	return text
}

// RefusedError is the error of [Wait] if more watches have failed than it may tolerate.
type RefusedError struct {
	// Status is the last status. The first of its pending watches are those that have failed.
	Status *WaitStatus
}

// Error implements error. It names the first watches that have failed.
func (e *RefusedError) Error() string {
	var reports []string
	for _, p := range e.Failures() {
		reports = append(reports, p.Name()+": "+cmp.Or(p.Err.Message, p.Err.Code.String()))
	}
	noun := "watches"
	if e.Status.Failed == 1 {
		noun = "watch"
	}
	return fmt.Sprintf("%d %s cannot apply revision %d: %s", e.Status.Failed, noun, e.Status.Revision, firstFew(reports, e.Status.Failed, "; "))
}

// Failures returns the watches that have failed, with their errors. Each server names 100 at
// most; [WaitStatus.Failed] counts all.
func (e *RefusedError) Failures() []PendingWatch {
	i := slices.IndexFunc(e.Status.Pending, func(p PendingWatch) bool { return !p.Failed })
	if i < 0 {
		i = len(e.Status.Pending)
	}
	return e.Status.Pending[:i:i]
}

// NotReachedError is the error of [Wait] if its context has ended first.
type NotReachedError struct {
	// Status is the last status.
	Status *WaitStatus
	// Cause is the cause of the context.
	Cause error
}

// Error implements error. It names the first watches that have not applied the revision.
func (e *NotReachedError) Error() string {
	return fmt.Sprintf("%s: %v", e.Status.Detail(), e.Cause)
}

// Unwrap returns the cause.
func (e *NotReachedError) Unwrap() error { return e.Cause }

// firstFew joins the first of the texts and adds the number of the others.
func firstFew(texts []string, all int64, separator string) string {
	const few = 3
	shown := texts[:min(few, len(texts))]
	text := strings.Join(shown, separator)
	if more := all - int64(len(shown)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
