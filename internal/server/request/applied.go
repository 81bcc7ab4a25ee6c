package request

import (
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// Applied selects watches, and a revision that they may have applied.
type Applied struct {
	Resource string
	Scope    object.Scope // watches whose scopes overlap this one
	Revision object.Revision

	RequireAll  bool              // count watches that do not report, too
	Subscribers selector.Selector // of the labels of subscribers
	Instance    string            // of the subscriber; empty: any
}

// ParseWatchApplied parses a request for the watches that have applied a revision.
func ParseWatchApplied(req *fanoutv1.WatchAppliedRequest) (Applied, error) {
	var check Checker
	a := Applied{
		Resource: req.GetResource(),
		Scope:    check.scope("scope", req.GetScope()),
		Revision: check.positiveRevision("revision", req.GetRevision()),

		RequireAll: req.GetRequireAll(),
		Instance:   req.GetInstance(),
	}
	var err error
	if a.Subscribers, err = selector.ParseLabels(req.GetSubscriberSelector()); err != nil {
		check.Refuse("subscriber_selector", "%v", err)
	}
	if n := len(a.Instance); n > maxInstanceBytes {
		check.Refuse("instance", "has %d bytes, the limit is %d", n, maxInstanceBytes)
	}
	return a, check.Err()
}
