package server

import (
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// watch is what a request asks for.
type watch struct {
	interest    dispatch.Interest
	after       *object.Position // where to begin; nil: with a snapshot, or now
	fromNow     bool
	consistency consistency // of the snapshot, or of now
	options     dispatch.Options
	limit       time.Duration // 0: none
}

// The limits of what a request may ask for.
const (
	minBookmarkInterval = 100 * time.Millisecond
	maxBookmarkInterval = time.Hour
	minBatchDelay       = time.Millisecond
	maxBatchDelay       = time.Minute
	minTimeLimit        = time.Second
	maxTimeLimit        = 10 * 365 * 24 * time.Hour
)

// parseWatch checks a request.
func parseWatch(resource *Resource, req *fanoutv1.WatchRequest) (watch, error) {
	var check checker
	w := watch{
		interest: dispatch.Interest{
			Scope:      check.scope("scope", req.GetScope()),
			Selector:   check.selector(req.GetLabelSelector(), req.GetFieldSelector(), resource.Fields),
			Projection: object.Projection{Previous: req.GetPreviousObject(), OmitValues: req.GetOmitValues()},
		},
		fromNow:     req.GetFromNow() != nil,
		consistency: check.consistency("consistency", req.GetConsistency()),
		options: dispatch.Options{
			Latest:           check.delivery("delivery", req.GetDelivery()),
			EveryEvent:       req.GetEveryEvent(),
			BookmarkInterval: check.duration("bookmark_interval", req.GetBookmarkInterval(), minBookmarkInterval, maxBookmarkInterval),
			BatchDelay:       check.duration("max_batch_delay", req.GetMaxBatchDelay(), minBatchDelay, maxBatchDelay),
		},
		limit: check.duration("time_limit", req.GetTimeLimit(), minTimeLimit, maxTimeLimit),
	}
	w.after = check.after("after", req.GetAfter())
	if w.after != nil && w.consistency != (consistency{}) {
		check.refuse("consistency", "must be left out with after, which says it itself")
	}
	if w.fromNow && w.consistency.level == exactly && w.consistency.at > 0 {
		check.refuse("consistency.exact_revision", "contradicts from_now")
	}
	if w.options.Latest && w.options.EveryEvent {
		check.refuse("every_event", "contradicts DELIVERY_LATEST")
	}
	return w, check.err()
}

// after checks the position after which a watch begins, nil for none.
func (c *checker) after(field string, p *fanoutv1.Position) *object.Position {
	if p == nil {
		return nil
	}
	after := object.Position{Epoch: object.Epoch(p.GetEpoch()), Revision: c.revision(field+".revision", p.GetRevision())}
	if after.Epoch == "" && after.Revision > 0 {
		c.refuse(field+".epoch", "must not be empty")
	}
	return &after
}

// delivery checks a delivery and reports whether it is LATEST.
func (c *checker) delivery(field string, d fanoutv1.Delivery) bool {
	switch d {
	case fanoutv1.Delivery_DELIVERY_UNSPECIFIED, fanoutv1.Delivery_DELIVERY_EVERY:
		return false
	case fanoutv1.Delivery_DELIVERY_LATEST:
		return true
	}
	c.refuse(field, "is %d, which is not defined", d)
	return false
}
