package parts

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

func TestCutEndsMessagesAtRevisions(t *testing.T) {
	type event struct {
		at   object.Revision
		size int
	}
	tests := map[string]struct {
		events         []event
		taken          int
		upTo           object.Revision
		partial, stops bool
	}{
		"all fit":                             {[]event{{1, 40}, {2, 60}}, 2, 2, false, false},
		"the next revision does not fit":      {[]event{{1, 60}, {2, 60}}, 1, 1, false, true},
		"half of the next revision would fit": {[]event{{1, 60}, {2, 30}, {2, 30}}, 1, 1, false, true},
		"the only revision is too large":      {[]event{{1, 60}, {1, 30}, {1, 30}}, 2, 0, true, true},
		"one event is too large":              {[]event{{1, 600}, {2, 1}}, 1, 1, false, true},
		"one event of several is too large":   {[]event{{1, 600}, {1, 1}}, 1, 0, true, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := Cut{Limit: 100}
			stopped := false
			for _, e := range tc.events {
				if !c.Take(e.at, e.size) {
					stopped = true
					break
				}
			}
			if c.Taken != tc.taken || c.UpTo != tc.upTo || c.Partial != tc.partial || stopped != tc.stops {
				t.Errorf("took %d up to %d, partial %v, stopped %v; want %d, %d, %v, %v",
					c.Taken, c.UpTo, c.Partial, stopped, tc.taken, tc.upTo, tc.partial, tc.stops)
			}
		})
	}
}
