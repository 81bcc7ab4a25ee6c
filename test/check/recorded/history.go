package recorded

import (
	"cmp"
	"fmt"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// History returns an empty history for the watcher that makes a request. The request has no
// selectors; the caller sets what it selects.
func History(watcher string, r *fanoutv1.WatchRequest) (*check.History, error) {
	scope, err := Scope(r.GetScope())
	if err != nil {
		return nil, err
	}
	if s := cmp.Or(r.GetLabelSelector(), r.GetFieldSelector()); s != "" {
		return nil, fmt.Errorf("the request of %s has the selector %q", watcher, s)
	}
	return &check.History{
		Watcher:    watcher,
		Scope:      scope,
		Previous:   r.GetPreviousObject(),
		OmitValues: r.GetOmitValues(),
		Latest:     r.GetDelivery() == fanoutv1.Delivery_DELIVERY_LATEST,
		EveryEvent: r.GetEveryEvent(),
		Bookmarks:  r.GetBookmarkInterval().AsDuration(),
	}, nil
}

// Scope converts a scope.
func Scope(s *fanoutv1.Scope) (object.Scope, error) {
	switch s := s.GetScope().(type) {
	case *fanoutv1.Scope_Prefix:
		return object.ParsePrefix(s.Prefix)
	case *fanoutv1.Scope_Key:
		return object.ParseKeyScope(s.Key)
	}
	return object.Scope{}, nil
}
