package epochs

import "testing"

// A lagging member has a short log. It must not make a healthy etcd look restored.
func TestOnlyMembersThatAppliedTheRecordProveARestore(t *testing.T) {
	written := &record{ID: "x", Offset: 50}
	for name, test := range map[string]struct {
		observed observation
		want     bool
	}{
		"no record":                    {observation{index: 10, indexRevision: 100}, false},
		"unchanged since the record":   {observation{record: written, recorded: 100, index: 150, indexRevision: 100}, false},
		"writes since the record":      {observation{record: written, recorded: 100, index: 1080, indexRevision: 1000}, false},
		"restored":                     {observation{record: written, recorded: 100, index: 10, indexRevision: 100}, true},
		"restored, then writes":        {observation{record: written, recorded: 100, index: 910, indexRevision: 1000}, true},
		"lagging member":               {observation{record: written, recorded: 100, index: 100, indexRevision: 99}, false},
		"member without a known index": {observation{record: written, recorded: 100}, false},
	} {
		if got := test.observed.restored(); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
