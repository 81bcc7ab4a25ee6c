package manage

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
)

func (r *recorder) Snapshot(_ context.Context, send func([]byte, int64) error) error {
	return send([]byte("database"), 0)
}

// A snapshot that may be old or wrong is refused, or marked if it is asked for.
func TestSnapshotThatMayBeOldOrWrong(t *testing.T) {
	for _, tt := range []struct {
		members     string
		alarm       Alarm
		unconfirmed bool
		problem     string
	}{
		{"a b c", Alarm{}, false, ""},
		{"a b:dead c:corrupt", Alarm{}, false, ""},
		{"a b c", Alarm{31, true}, false, ""}, // of a member that was removed
		{"a:corrupt b c", Alarm{}, false, "the data of a differs from that of others"},
		{"a b c", Alarm{0, true}, false, "the data of members differs"},
		{"a b c", Alarm{}, true, "a has no majority, so it may lack the newest writes"},
		{"a:lost b:dead c:dead", Alarm{}, true, "a has no majority, so it may lack the newest writes"},
	} {
		synctest.Test(t, func(t *testing.T) {
			etcd := &recorder{cluster: state(tt.members)}
			etcd.cluster.Unconfirmed = tt.unconfirmed
			if tt.alarm != (Alarm{}) {
				etcd.cluster.OtherAlarms = []Alarm{tt.alarm}
			}
			var got []Source
			send := func(from Source, _ []byte, _ int64) error { got = append(got, from); return nil }
			err := New(etcd).Snapshot(context.Background(), false, send)
			if (err == nil) != (tt.problem == "") || (len(got) == 0) != (tt.problem != "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
				t.Errorf("%s: got %v, %v, want %q", tt.members, got, err, tt.problem)
			}
			got = nil
			err = New(etcd).Snapshot(context.Background(), true, send)
			if err != nil || len(got) != 1 || got[0].Member != "a" || !strings.HasPrefix(got[0].Problem, tt.problem) || tt.problem == "" && got[0].Problem != "" {
				t.Errorf("%s, asked for: got %v, %v", tt.members, got, err)
			}
		})
	}
}
