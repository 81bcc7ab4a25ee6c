package manage

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func (r *recorder) Hash(_ context.Context, id uint64) (Hash, error) { return r.hashes[r.name(id)], nil }

func (r *recorder) Disarm(_ context.Context, alarm Alarm) error {
	r.add("disarm %s %t", r.name(alarm.Member), alarm.Corrupt)
	r.cluster.OtherAlarms = slices.DeleteFunc(slices.Clone(r.cluster.OtherAlarms), func(a Alarm) bool { return a == alarm })
	return nil
}

// etcd refuses writes because of an alarm of any member, also of one that was removed, or of none. So the cluster is
// not safe, and the reason names the command that helps.
func TestAlarmOfNoMemberIsNotSafe(t *testing.T) {
	for _, tt := range []struct {
		alarm   Alarm
		problem string
	}{
		{Alarm{0, true}, "etcd refuses writes because of the alarm CORRUPT of no certain member: their data differs: run fanoutctl cluster disarm"},
		{Alarm{0x1f, true}, "etcd refuses writes because of the alarm CORRUPT of a member that was removed (1f): run fanoutctl cluster disarm"},
		{Alarm{0x1f, false}, "etcd refuses writes because of the alarm NOSPACE of a member that was removed (1f): run fanoutctl cluster disarm"},
	} {
		c := state("a b c")
		c.OtherAlarms = []Alarm{tt.alarm}
		if got := c.Unsafe(); got != tt.problem {
			t.Errorf("got %q, want %q", got, tt.problem)
		}
	}
}

// An alarm that data differs is cleared only once it does not.
func TestAlarmsAreClearedIfTheirCauseIsGone(t *testing.T) {
	same, other, third := Hash{9, 1, 7}, Hash{9, 1, 8}, Hash{9, 1, 9}
	for _, tt := range []struct {
		members string
		alarms  []Alarm
		hashes  []Hash
		done    string
		refusal string
	}{
		{"a b c", nil, []Hash{same, other, same}, "", ""},
		{"a b c", []Alarm{{0, true}}, []Hash{same, same, same}, "disarm 0 true", ""},
		{"a b c", []Alarm{{31, true}, {31, false}}, []Hash{same, same, same}, "disarm 31 true, disarm 31 false", ""},
		{"a b c:dead", []Alarm{{31, false}}, []Hash{same, same, other}, "disarm 31 false", ""},
		{"a b c:corrupt", nil, []Hash{same, same, same}, "disarm c true", ""},
		{"a b c:corrupt", nil, []Hash{same, same, other}, "", "the data of c differs from that of most members: stop c"},
		{"a b c", []Alarm{{31, true}}, []Hash{same, other, same}, "", "the data of b differs from that of most members: stop b"},
		{"a b c", []Alarm{{0, true}}, []Hash{same, other, third}, "", "the data differs between a, b, c, and no majority has the same"},
		{"a b c d", []Alarm{{0, true}}, []Hash{same, other, other, same}, "", "the data differs between a and d, b and c, and no majority has the same"},
		{"a b c:dead", []Alarm{{0, true}}, []Hash{same, same, same}, "", "the data of c cannot be compared (no answer)"},
	} {
		synctest.Test(t, func(t *testing.T) {
			etcd := &recorder{cluster: state(tt.members), hashes: map[string]Hash{}}
			etcd.cluster.OtherAlarms = tt.alarms
			for i, m := range etcd.cluster.Members {
				etcd.hashes[m.Name] = tt.hashes[i]
			}
			cleared, _, err := New(etcd).Disarm(context.Background())
			if got := strings.Join(etcd.calls, ", "); got != tt.done || tt.done == "" && len(cleared) > 0 {
				t.Errorf("%s with %v: got calls %q and %v, want %q", tt.members, tt.alarms, got, cleared, tt.done)
			}
			if (err == nil) != (tt.refusal == "") || err != nil && !strings.Contains(err.Error(), tt.refusal) {
				t.Errorf("%s with %v: got %v, want %q", tt.members, tt.alarms, err, tt.refusal)
			}
		})
	}
}

// The alarms of a member end with it, so that a replaced machine does not leave the cluster without writes.
func TestRemovalClearsTheAlarmsOfTheMember(t *testing.T) {
	etcd := &recorder{cluster: state("a b c:corrupt")}
	c, err := New(etcd).Remove(context.Background(), "c", false)
	if got := strings.Join(etcd.calls, ", "); err != nil || got != "remove c via a, disarm c true" {
		t.Errorf("got %q, %v", got, err)
	}
	if len(c.OtherAlarms) > 0 {
		t.Errorf("got %v", c.OtherAlarms)
	}
}
