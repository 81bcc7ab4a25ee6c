package manage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// state returns a cluster. Each word is a member: its name, and after a colon what is wrong with it. The first
// healthy one leads.
func state(words string) Cluster {
	c := Cluster{Majority: 2, Self: 1}
	var leader uint64
	for i, word := range strings.Fields(words) {
		name, trouble, _ := strings.Cut(word, ":")
		m := Member{ID: uint64(i + 1), Name: name, PeerURLs: []string{"http://" + name}, Report: &Report{Committed: 9000, Applied: 8990}}
		switch trouble {
		case "dead":
			m.Report, m.Problem = nil, "no answer"
		case "learner":
			m.Learner = true
		case "corrupt":
			m.Corrupt = true
		case "late":
			m.Report.Applied = 7000
		case "lost":
			m.Report.Leader = 0
		case "":
			if leader == 0 {
				leader = m.ID
			}
		}
		c.Members = append(c.Members, m)
	}
	for i, word := range strings.Fields(words) {
		if m := c.Members[i]; m.Report != nil && !strings.HasSuffix(word, ":lost") {
			m.Report.Leader = leader
		}
	}
	return c
}

func TestWhatMayFail(t *testing.T) {
	for _, tt := range []struct {
		members, mayFail string
		problem          string // of the cluster; empty: it is safe
	}{
		{"a", "", "it needs three voting members to lose one, and has 1"},
		{"a b", "", "it needs three voting members to lose one, and has 2"},
		{"a b c", "a b c", ""},
		{"a b c:dead", "c", "c (no answer)"},
		{"a b c:late", "c", "c (it is 2000 entries behind)"},
		{"a b c:lost", "c", "c (it has no leader)"},
		{"a b c:corrupt", "c", "c (its data differs from that of others)"},
		{"a b c d e:corrupt", "a b c d e", "e (its data differs from that of others)"}, // etcd refuses writes
		{"a b c:learner", "c", "c (it does not vote yet)"},
		{"a b:dead c:dead", "", "no majority of the voting members works (1 of 3): b (no answer), c (no answer)"},
		{"a:lost b:dead c:dead", "", "no majority of the voting members works (0 of 3): a (it has no leader), b (no answer), c (no answer)"},
		{"a b c d", "a b c d", ""},
		{"a b c d:dead", "d", "d (no answer)"},
		{"a b c d e:dead", "a b c d e", ""},
		{"a b c d:dead e:dead", "d e", "d (no answer), e (no answer)"},
		{"a b c d:learner", "a b c d", ""},
	} {
		c := state(tt.members)
		var may []string
		for _, m := range c.Members {
			if c.MayFail(m) {
				may = append(may, m.Name)
			}
		}
		if got := strings.Join(may, " "); got != tt.mayFail {
			t.Errorf("%s: %s may fail, want %s", tt.members, got, tt.mayFail)
		}
		if got := c.Unsafe(); got != tt.problem {
			t.Errorf("%s: got problem %q, want %q", tt.members, got, tt.problem)
		}
	}
}

// A change happens exactly if the cluster works without the member, and what is refused changes nothing.
func TestChangesThatAreRefused(t *testing.T) {
	remove := func(m *Manager, name string) error { _, err := m.Remove(context.Background(), name, false); return err }
	replace := func(m *Manager, name string) error { _, err := m.Remove(context.Background(), name, true); return err }
	update := func(m *Manager, name string) error {
		_, err := m.Update(context.Background(), name, func(string) string { return "http://new" })
		return err
	}
	move := func(m *Manager, name string) error { _, _, err := m.MoveLeader(context.Background(), name); return err }
	defragment := func(m *Manager, name string) error { _, _, err := m.Defragment(context.Background(), name); return err }
	for _, tt := range []struct {
		members, what string
		change        func(*Manager, string) error
		member        string
		done          string // calls of etcd
		refusal       string
	}{
		{"a b c", "remove", remove, "c", "remove c via a", ""},
		{"a b c", "remove", remove, "a", "move a to b, remove a via b", ""},
		{"a b c", "remove", remove, "x", "", `no member "x": its members are a, b, c`},
		{"a b c:dead", "remove", remove, "c", "remove c via a", ""},
		{"a b c:dead", "remove", remove, "b", "", "without b, no majority of the voting members works (1 of 2): bring c (no answer) back first"},
		{"a b c:learner", "remove", remove, "c", "remove c via a", ""},
		{"a b", "remove", remove, "b", "", "without b, the number of voting members is 1, and the servers accept no writes before 2"},
		{"a b:dead c:dead", "remove", remove, "c", "", "no majority of the voting members works (1 of 3), so nothing can be changed: start b (no answer), c (no answer); if their data is lost for good, use fanoutd recover"},
		{"a b c d:dead e:dead", "remove", remove, "e", "remove e via a", ""},
		{"a b c:dead", "replace", replace, "c", "remove c via a", ""},
		{"a b c", "replace", replace, "c", "", "c answers, so it need not be replaced"},
		{"a b c", "update", update, "b", "", "b answers: stop it first"},
		{"a b c:dead", "update", update, "c", "update c", ""},
		{"a b:dead c:dead", "update", update, "b", "", "no majority of the voting members works"},
		{"a b c", "move", move, "c", "move a to c", ""},
		{"a b c", "move", move, "a", "", ""},
		{"a b c", "move", move, "", "move a to b", ""},
		{"a b c:late", "move", move, "c", "", "c cannot lead: it is 2000 entries behind"},
		{"a b c:learner", "move", move, "c", "", "c cannot lead: it does not vote yet"},
		{"a b c", "defragment", defragment, "b", "defragment b", ""},
		{"a b c", "defragment", defragment, "a", "", "a leads, and writes would wait"},
		{"a b c:dead", "defragment", defragment, "b", "", "the cluster does not work without b"},
		{"a b c:dead", "defragment", defragment, "c", "", "c cannot be defragmented: no answer"},
		{"a b c d e:dead", "defragment", defragment, "b", "defragment b", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			etcd := &recorder{cluster: state(tt.members)}
			err := tt.change(New(etcd), tt.member)
			if got := strings.Join(etcd.calls, ", "); got != tt.done {
				t.Errorf("%s %s of %s: got calls %q, want %q (%v)", tt.what, tt.member, tt.members, got, tt.done, err)
			}
			if (err == nil) != (tt.refusal == "") || err != nil && !strings.Contains(err.Error(), tt.refusal) {
				t.Errorf("%s %s of %s: got %v, want %q", tt.what, tt.member, tt.members, err, tt.refusal)
			}
		})
	}
	unconfirmed := state("a b c")
	unconfirmed.Unconfirmed = true
	synctest.Test(t, func(t *testing.T) {
		etcd := &recorder{cluster: unconfirmed}
		if err := remove(New(etcd), "c"); err == nil || len(etcd.calls) > 0 {
			t.Errorf("a list that no majority has confirmed: got %v, %v", etcd.calls, err)
		}
	})
	single := state("a")
	single.Majority = 0
	if err := remove(New(&recorder{cluster: single}), "a"); err != ErrSingle { //nolint:errorlint // it is not wrapped
		t.Errorf("a single server: got %v", err)
	}
}

// A member is replaced only if it answers nobody for ten seconds. One late answer of a busy machine is no death.
func TestReplacedMemberAnswersNobody(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*recorder)
		refusal string
	}{
		{"it is dead", func(*recorder) {}, ""},
		{"it answers later", func(r *recorder) { r.later = state("a b c") }, "c answers, so it need not be replaced"},
		{"it answers the last question", func(r *recorder) {
			r.later, r.at, r.takes = state("a b c"), r.at.Add(3500*time.Millisecond), 2*time.Second
		}, "c answers, so it need not be replaced"},
		{"it answers another member", func(r *recorder) { r.reached = []uint64{2} }, "c answers b, so it need not be replaced"},
		{"another one dies meanwhile", func(r *recorder) { r.later = state("a b:dead c:dead") }, "no majority of the voting members works"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				etcd := &recorder{cluster: state("a b c:dead"), at: time.Now().Add(5 * time.Second)}
				tt.change(etcd)
				_, err := New(etcd).Remove(context.Background(), "c", true)
				if (err == nil) != (tt.refusal == "") || err != nil && !strings.Contains(err.Error(), tt.refusal) {
					t.Errorf("got %v, want %q", err, tt.refusal)
				}
				if got := strings.Join(etcd.calls, ", "); (got == "remove c via a") != (tt.refusal == "") {
					t.Errorf("got calls %q", got)
				}
			})
		})
	}
}

// A change waits for another one, but not longer than its caller.
func TestChangesWaitForEachOther(t *testing.T) {
	m := New(&recorder{cluster: state("a b c")})
	end, err := m.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Remove(ctx, "c", false); !errors.Is(err, context.Canceled) {
		t.Errorf("during another change: got %v", err)
	}
	end()
	if _, err := m.Remove(t.Context(), "c", false); err != nil {
		t.Errorf("after it: got %v", err)
	}
}

// recorder is an etcd that records the changes.
type recorder struct {
	Etcd
	cluster Cluster
	hashes  map[string]Hash
	reached []uint64
	takes   time.Duration // each question
	later   Cluster       // the state after at
	at      time.Time
	calls   []string
}

func (r *recorder) name(id uint64) string {
	if id == 0 || id > uint64(len(r.cluster.Members)) {
		return fmt.Sprint(id)
	}
	return r.cluster.Members[id-1].Name
}

func (r *recorder) add(format string, args ...any) {
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *recorder) Cluster(context.Context) (Cluster, error) {
	if len(r.later.Members) > 0 && time.Now().After(r.at) {
		return r.later, nil
	}
	return r.cluster, nil
}

func (r *recorder) Reached(context.Context, uint64) []uint64 {
	time.Sleep(r.takes)
	return r.reached
}

func (r *recorder) RemoveMember(_ context.Context, via, id uint64) error {
	r.add("remove %s via %s", r.name(id), r.name(via))
	return nil
}

func (r *recorder) UpdateMember(_ context.Context, id uint64, _ string) error {
	r.add("update %s", r.name(id))
	return nil
}

func (r *recorder) MoveLeader(_ context.Context, leader, to uint64) error {
	r.add("move %s to %s", r.name(leader), r.name(to))
	return nil
}

func (r *recorder) Defragment(_ context.Context, id uint64) (before, after int64, err error) {
	r.add("defragment %s", r.name(id))
	return 2, 1, nil
}
