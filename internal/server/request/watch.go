package request

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Watch is a request for a watch.
type Watch struct {
	Interest    feed.Interest
	After       *object.Position // where to begin; nil: with a snapshot, or now
	FromNow     bool
	Consistency object.Consistency // of the snapshot, or of now
	Options     dispatch.Options
	TimeLimit   time.Duration // 0: none
}

// Limits of the settings that a request may choose.
const (
	minBookmarkInterval = 100 * time.Millisecond
	maxBookmarkInterval = time.Hour
	minBatchDelay       = time.Millisecond
	maxBatchDelay       = time.Minute
	minTimeLimit        = time.Second
	maxTimeLimit        = 10 * 365 * 24 * time.Hour
)

// ParseWatch parses a request for a watch. fields are those that the resource declares for
// field selectors, and codec is the codec of its values.
func ParseWatch(target Target, req *fanoutv1.WatchRequest, fields []string, codec object.Codec) (Watch, error) {
	check := target.checker()
	w := Watch{
		Interest: feed.Interest{
			Scope:      target.Scope,
			Selector:   check.selector(req.GetLabelSelector(), req.GetFieldSelector(), fields),
			Projection: projection(req, codec, req.GetPreviousObject()),
		},
		FromNow:     req.GetFromNow() != nil,
		Consistency: check.consistency("consistency", req.GetConsistency()),
		Options: dispatch.Options{
			Latest:           check.delivery("delivery", req.GetDelivery()),
			EveryEvent:       req.GetEveryEvent(),
			BookmarkInterval: check.duration("bookmark_interval", req.GetBookmarkInterval(), minBookmarkInterval, maxBookmarkInterval),
			BatchDelay:       check.duration("max_batch_delay", req.GetMaxBatchDelay(), minBatchDelay, maxBatchDelay),
		},
		TimeLimit: check.duration("time_limit", req.GetTimeLimit(), minTimeLimit, maxTimeLimit),
	}
	w.After = check.after("after", req.GetAfter())
	check.subscriber("subscriber", req.GetSubscriber())
	if w.After != nil && w.Consistency != (object.Consistency{}) {
		check.Refuse("consistency", "must be left out with after, which says it itself")
	}
	if w.FromNow && w.Consistency.Level == object.Exactly && w.Consistency.Revision > 0 {
		check.Refuse("consistency.exact_revision", "contradicts from_now")
	}
	if w.Options.Latest && w.Options.EveryEvent {
		check.Refuse("every_event", "contradicts DELIVERY_LATEST")
	}
	return w, check.Err()
}

// after checks the position after which a watch begins; nil if there is none.
func (c *Checker) after(field string, p *fanoutv1.Position) *object.Position {
	if p == nil {
		return nil
	}
	after := object.Position{Epoch: object.Epoch(p.GetEpoch()), Revision: c.revision(field+".revision", p.GetRevision())}
	if after.Epoch == "" && after.Revision > 0 {
		c.Refuse(field+".epoch", "must not be empty")
	}
	return &after
}

// CheckSubscriber returns an error if a program that watches may not name itself so.
func CheckSubscriber(s *fanoutv1.Subscriber) error {
	var check Checker
	check.subscriber("subscriber", s)
	return check.Err()
}

// Limits of a subscriber.
const (
	maxInstanceBytes = 253
	maxLabels        = 16
)

// subscriber checks how a program that watches names itself.
func (c *Checker) subscriber(field string, s *fanoutv1.Subscriber) {
	instance := s.GetInstance()
	if n := len(instance); n > maxInstanceBytes {
		c.Refuse(field+".instance", "has %d bytes, the limit is %d", n, maxInstanceBytes)
	} else if i := strings.IndexFunc(instance, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(instance) {
		c.Refuse(field+".instance", "%q has characters that cannot be printed", instance)
	}
	if n := len(s.GetLabels()); n > maxLabels {
		c.Refuse(field+".labels", "has %d labels, the limit is %d", n, maxLabels)
	} else if err := object.CheckLabels(field+".labels", s.GetLabels()); err != nil {
		c.Refuse(err.Field, "%s", err.Reason)
	}
}

// delivery checks a delivery and reports whether it is LATEST.
func (c *Checker) delivery(field string, d fanoutv1.Delivery) bool {
	switch d {
	case fanoutv1.Delivery_DELIVERY_UNSPECIFIED, fanoutv1.Delivery_DELIVERY_EVERY:
		return false
	case fanoutv1.Delivery_DELIVERY_LATEST:
		return true
	}
	c.Refuse(field, "is %d, which is not defined", d)
	return false
}
