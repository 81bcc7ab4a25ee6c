package store

import "testing"

// A member that lags behind must not make a healthy etcd look restored, because
// its log is shorter than the one that was measured.
func TestOnlyMembersThatKnowTheRecordAreBelieved(t *testing.T) {
	record := &epochRecord{ID: "x", Offset: 50}
	for name, test := range map[string]struct {
		observed observation
		want     bool
	}{
		"no record":                     {observation{index: 10, indexRevision: 100}, false},
		"as when it was written":        {observation{record: record, recorded: 100, index: 150, indexRevision: 100}, false},
		"written to since":              {observation{record: record, recorded: 100, index: 1080, indexRevision: 1000}, false},
		"restored":                      {observation{record: record, recorded: 100, index: 10, indexRevision: 100}, true},
		"restored and written to since": {observation{record: record, recorded: 100, index: 910, indexRevision: 1000}, true},
		"a member that lags behind":     {observation{record: record, recorded: 100, index: 100, indexRevision: 99}, false},
		"a member that does not say":    {observation{record: record, recorded: 100}, false},
	} {
		if got := test.observed.restored(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
