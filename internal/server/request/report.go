package request

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/code"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Report is how far a client has applied a watch.
type Report struct {
	Watch     string           // token of the watch; empty on a Subscribe stream
	Applied   *object.Position // nil: the position of the last report stays
	Failure   Failure          // why the client cannot apply what comes next; zero: no error
	Attempted *object.Position // with a failure: everything up to it is applied or has failed; nil: everything that was sent

	// FailedKeys are the keys of the objects that have failed. Empty: any object after Applied may have.
	FailedKeys []object.Key
}

// Failure is an error that a client reports.
type Failure struct {
	Code    code.Code
	Message string
}

// maxFailureBytes limits the message of an error that a client reports. Longer ones are
// clipped: a client should not have to know how long its errors are.
const maxFailureBytes = 1024

// Limits of the keys in a report. A client with more leaves them out.
const (
	maxFailedKeys     = 32
	maxFailedKeyBytes = 4096 // of all keys
)

// ParseReport parses a report.
func ParseReport(req *fanoutv1.ReportRequest) (Report, error) {
	var check Checker
	r := check.report(req)
	if r.Watch = req.GetWatch(); r.Watch == "" {
		check.Refuse("watch", "must not be empty")
	}
	return r, check.Err()
}

// ParseStreamReport parses a report for a watch of a Subscribe stream.
func ParseStreamReport(req *fanoutv1.SubscribeRequest_Report) (Report, error) {
	var check Checker
	r := check.report(req)
	return r, check.Err()
}

// reportRequest is what both kinds of reports have in common.
type reportRequest interface {
	GetApplied() *fanoutv1.Position
	GetError() *rpcstatus.Status
	GetAttempted() *fanoutv1.Position
	GetFailedKeys() []string
}

func (c *Checker) report(req reportRequest) Report {
	return Report{
		Applied: c.after("applied", req.GetApplied()), Failure: c.failure("error", req.GetError()), Attempted: c.after("attempted", req.GetAttempted()),
		FailedKeys: c.failedKeys("failed_keys", req.GetFailedKeys()),
	}
}

// failedKeys checks the keys of the objects that have failed.
func (c *Checker) failedKeys(field string, keys []string) []object.Key {
	if n := len(keys); n > maxFailedKeys {
		c.Refuse(field, "has %d keys, the limit is %d", n, maxFailedKeys)
		return nil
	}
	parsed, bytes := make([]object.Key, 0, len(keys)), 0
	for _, key := range keys {
		bytes += len(key)
	}
	if bytes > maxFailedKeyBytes {
		c.Refuse(field, "has %d bytes, the limit is %d", bytes, maxFailedKeyBytes)
	}
	for i, key := range keys {
		parsed = append(parsed, c.existingKey(fmt.Sprintf("%s[%d]", field, i), key))
	}
	return parsed
}

// CheckFailedKeys returns an error if the watch of the report has no such keys in its scope. A gate
// for the key that the client means would not see the error, and succeed.
func (r *Report) CheckFailedKeys(scope object.Scope) error {
	var check Checker
	for i, key := range r.FailedKeys {
		if !scope.Contains(key) {
			check.Refuse(fmt.Sprintf("failed_keys[%d]", i), "is %q, which is not in the scope of the watch", key)
		}
	}
	return check.Err()
}

// AppliedUpTo returns the position that a report states, or the zero position if the report
// states none or if its position means nothing: within a RESET there is no position, and
// positions of an earlier epoch cannot be compared. It returns an error if the position is after
// the latest one that the server has sent.
func (r *Report) AppliedUpTo(sent object.Position) (object.Position, error) {
	if r.Applied == nil {
		return object.Position{}, nil
	}
	return reached("applied", *r.Applied, sent)
}

// AttemptedUpTo is like AppliedUpTo, for the position that the client has attempted. If the report
// states none, it is the latest one that the server has sent.
func (r *Report) AttemptedUpTo(sent object.Position) (object.Position, error) {
	if r.Attempted == nil {
		return sent, nil
	}
	return reached("attempted", *r.Attempted, sent)
}

// reached checks a position that a client has reached.
func reached(field string, p, sent object.Position) (object.Position, error) {
	if sent.Revision == 0 || p.Revision == 0 || p.Epoch != sent.Epoch {
		return object.Position{}, nil
	}
	if p.Revision > sent.Revision {
		var check Checker
		check.Refuse(field, "has revision %d, but the server has sent the watch nothing after revision %d", p.Revision, sent.Revision)
		return object.Position{}, check.Err()
	}
	return object.Position{Epoch: sent.Epoch, Revision: p.Revision}, nil // keeps no epoch of the request in memory
}

// failure checks an error that a client reports.
func (c *Checker) failure(field string, s *rpcstatus.Status) Failure {
	if s == nil {
		return Failure{}
	}
	_, known := code.Code_name[s.GetCode()]
	if !known || s.GetCode() == int32(code.Code_OK) {
		c.Refuse(field+".code", "is %d, must be a code of google.rpc.Code other than OK", s.GetCode())
	}
	return Failure{Code: code.Code(s.GetCode()), Message: apierr.Clip(s.GetMessage(), maxFailureBytes)}
}
