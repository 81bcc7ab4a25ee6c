package apierr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
)

// InvalidError lists what is wrong with a request, field by field.
type InvalidError []*errdetails.BadRequest_FieldViolation

func (e InvalidError) Error() string {
	violations := make([]string, len(e))
	for i, v := range e {
		violations[i] = strings.TrimSpace(v.GetField() + " " + v.GetDescription())
	}
	return "invalid request: " + strings.Join(violations, "; ")
}

// UnknownResourceError is the name of a resource that is not configured.
type UnknownResourceError string

func (e UnknownResourceError) Error() string {
	return fmt.Sprintf("there is no resource %q", string(e))
}

// WaitingError means that this server serves nothing yet, because it waits for others of its cluster.
type WaitingError struct{ For string }

func (e *WaitingError) Error() string {
	return "the server serves nothing yet: it waits for " + e.For
}

// NotFoundError means that a key does not exist.
type NotFoundError struct {
	Key      object.Key
	Revision object.Revision
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("key %q does not exist at revision %d", e.Key, e.Revision)
}

// OpaqueError means that a put would replace an opaque object. Nothing was written.
type OpaqueError struct {
	Key         object.Key
	ModRevision object.Revision
	Codec       string // of the resource
	Reason      error  // why the object is opaque
}

func (e *OpaqueError) Error() string {
	problem := fmt.Sprintf("the codec %q of the resource cannot decode it (%v), so it may belong to another program", e.Codec, e.Reason)
	if undecryptable, ok := errors.AsType[*object.UndecryptableError](e.Reason); ok {
		problem = "the server cannot decrypt it: " + undecryptable.Error()
	}
	return fmt.Sprintf("the present value of %q is opaque: %s. Nothing was written; to replace the value, set overwrite_opaque", e.Key, problem)
}

// ValueRefusedError means that the validation rules of a resource refuse a write. Nothing was written.
type ValueRefusedError struct {
	Key        object.Key
	Violations []*errdetails.BadRequest_FieldViolation // fields have JSON pointers, such as put.value/percent
}

// maxRefusalBytes limits the message, because the details repeat what it says.
const maxRefusalBytes = 600

func (e *ValueRefusedError) Error() string {
	faults := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		field := v.GetField()
		if at := strings.IndexByte(field, '/'); at >= 0 {
			field = field[at:]
		} else {
			field = ""
		}
		faults[i] = strings.TrimSpace(field + " " + v.GetDescription())
	}
	return Clip(fmt.Sprintf("the rules of the resource refuse the write of %q: %s", Clip(string(e.Key), maxCallerBytes), strings.Join(faults, "; ")), maxRefusalBytes)
}

// ErrContended means that other writers, at other servers, were faster each time. Nothing was
// written.
var ErrContended = errors.New("the object changes too fast: other writers were faster each time")

// ExpiredError means that the state at a position is no longer known.
type ExpiredError struct {
	Asked  object.Position
	Oldest object.Revision
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("the state at revision %d is no longer known, the oldest is that at %d", e.Asked.Revision, e.Oldest)
}

// PageExpiredError means the same for a list that began at the position.
type PageExpiredError struct {
	*ExpiredError
	Token string // continues at the newest revision
}

// DeniedError means that the policy does not allow a request. It repeats what was asked, and
// reveals nothing about what exists.
type DeniedError struct {
	Caller   access.Identity
	Question policy.Question
}

// ForeignWatchError means that a caller has reported for the watch of another caller.
type ForeignWatchError struct {
	Caller   access.Identity
	Resource string // of the watch
}

func (e *ForeignWatchError) Error() string {
	if e.Caller.Anonymous() {
		return "the credentials with which the watch was opened are needed to report for it"
	}
	return fmt.Sprintf("%q may not report for the watch of another caller", Clip(e.Caller.Name, maxCallerBytes))
}

// IsDenied reports whether an error means that the caller has no right.
func IsDenied(err error) bool {
	_, denied := errors.AsType[*DeniedError](err)
	return denied
}

// IsBadCredentials reports whether an error means that credentials are invalid or have expired.
func IsBadCredentials(err error) bool {
	_, refused := errors.AsType[*access.RefusedError](err)
	return refused
}

// maxCallerBytes is how much of the name of a caller an error repeats.
const maxCallerBytes = 256

func (e *DeniedError) Error() string {
	if e.Caller.Anonymous() {
		return fmt.Sprintf("credentials are needed to %v", e.Question)
	}
	return fmt.Sprintf("%q may not %v", Clip(e.Caller.Name, maxCallerBytes), e.Question)
}

// LimitError means that a limit is reached.
type LimitError struct {
	Name       Limit
	What       string // is limited
	Limit      float64
	Client     string        // whose limit it is; empty: everybody's
	Size       int           // of what is too large
	RetryAfter time.Duration // when to come back; 0: never
}

func (e *LimitError) Error() string {
	limit := strconv.FormatFloat(e.Limit, 'f', -1, 64)
	switch {
	case e.Size > 0:
		return fmt.Sprintf("the %s has %d bytes, the limit is %s", e.What, e.Size, limit)
	case e.Client != "":
		return fmt.Sprintf("too many %s of %s, the limit is %s", e.What, e.Client, limit)
	}
	return fmt.Sprintf("too many %s, the limit is %s", e.What, limit)
}

func (e *LimitError) metadata() map[string]string {
	m := map[string]string{"limit": strconv.FormatFloat(e.Limit, 'f', -1, 64), "limit_name": string(e.Name)}
	if e.Client != "" {
		m["client"] = Clip(e.Client, MaxEchoBytes)
	}
	if e.Size > 0 {
		m["size"] = strconv.Itoa(e.Size)
	}
	return m
}

var (
	// ErrDraining ends streams and requests while the server stops.
	ErrDraining = errors.New("the server is stopping")

	// ErrDrainedInTurn is the ErrDraining of watches whose ends the server spreads over time.
	// Their clients need not wait before they resume.
	ErrDrainedInTurn = fmt.Errorf("%w", ErrDraining)

	// ErrEndedByOperator ends a watch that an operator does not want.
	ErrEndedByOperator = errors.New("an operator has ended the watch, resume it here or at another server")

	// ErrUnknownWatch refuses a report for a watch that does not exist.
	ErrUnknownWatch = errors.New("this server has no such watch, or the watch has ended")

	// ErrWatchIDInUse refuses to start a watch with the id of another watch of the stream.
	ErrWatchIDInUse = errors.New("another watch of this stream has this id")

	// ErrNoHistory means that the history of a resource is turned off.
	ErrNoHistory = errors.New("the resource has no history: its setting history is not set")

	// ErrPanic replaces a panic. The log has the details.
	ErrPanic = errors.New("the handler panicked")
)
