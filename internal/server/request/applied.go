package request

import (
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Applied selects watches, and a revision that they may have applied.
type Applied struct {
	Resource string
	Scope    object.Scope // watches whose scopes overlap this one
	Revision object.Revision
}

// ParseWatchApplied parses a request for the watches that have applied a revision.
func ParseWatchApplied(req *fanoutv1.WatchAppliedRequest) (Applied, error) {
	var check Checker
	a := Applied{
		Resource: req.GetResource(),
		Scope:    check.scope("scope", req.GetScope()),
		Revision: check.positiveRevision("revision", req.GetRevision()),
	}
	return a, check.Err()
}
