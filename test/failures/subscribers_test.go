package failures

import (
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// subscribers are subscribers that do the same, one over Watch and one over Subscribe.
type subscribers []*subscriber

func newSubscribers(name string) subscribers {
	overSubscribe := newSubscriber(name + " over Subscribe")
	overSubscribe.subscribes = true
	return subscribers{newSubscriber(name), overSubscribe}
}

func (all subscribers) subscribe(t *testing.T, client fanoutv1.FanoutServiceClient) {
	t.Helper()
	for _, s := range all {
		s.subscribe(t, client)
	}
}

func (all subscribers) until(t *testing.T, kind object.MessageKind) {
	t.Helper()
	for _, s := range all {
		s.until(t, kind)
	}
}

func (all subscribers) reach(t *testing.T, revision object.Revision) {
	t.Helper()
	for _, s := range all {
		s.reach(t, revision)
	}
}

func (all subscribers) leave() {
	for _, s := range all {
		s.leave()
	}
}

func (all subscribers) caughtUp(t *testing.T, want ...object.CatchUpKind) {
	t.Helper()
	for _, s := range all {
		s.caughtUp(t, want...)
	}
}

func (all subscribers) validate(t *testing.T, truth *check.Truth) {
	t.Helper()
	for _, s := range all {
		s.validate(t, truth)
	}
}
