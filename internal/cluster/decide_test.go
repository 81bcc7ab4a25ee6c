package cluster

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

// list has three servers.
var list = List{{"node-1", "h1:2380", "h1:2379"}, {"node-2", "h2:2380", "h2:2379"}, {"node-3", "h3:2380", "h3:2379"}}

// The answers of others.
var (
	silent  = Answer{Problem: "no answer"}
	empty   = Answer{State: Empty, Process: "other", List: list.digest(), Founder: "node-1"}
	memberX = Answer{State: Member, Cluster: 0x10}
	memberY = Answer{State: Member, Cluster: 0x11}
)

// The two tables of docs/dev/cluster.md.
func TestDecisions(t *testing.T) {
	expecting := func(founder string) Answer { a := empty; a.Founder = founder; return a }
	otherList := func() Answer { a := empty; a.List = "another"; return a }()
	own := func(founder string) Answer {
		return Answer{State: Empty, Process: "own", List: list.digest(), Founder: founder}
	}
	type answers map[string]Answer
	for _, tt := range []struct {
		name    string
		server  string // default: node-1
		dir     Directory
		without []string
		answers answers // of the others, and of node-1 if it is not itself there
		want    Action
		says    string // in the reason to wait, or in the refusal
		refused bool
	}{
		// With data.
		{name: "all others are silent", dir: Directory{Cluster: 0x10, Name: "node-1"}, answers: answers{}, want: Start},
		{name: "others are empty", dir: Directory{Cluster: 0x10, Name: "node-1"}, answers: answers{"node-2": empty, "node-3": empty}, want: Start},
		{name: "others are of the same cluster", dir: Directory{Cluster: 0x10, Name: "node-1"}, answers: answers{"node-2": memberX, "node-3": memberX}, want: Start},
		{name: "it was never ready", dir: Directory{Cluster: 0x10}, answers: answers{"node-2": memberX}, want: Start},
		{name: "another name", dir: Directory{Cluster: 0x10, Name: "node-2"}, answers: answers{}, refused: true, says: "belongs to node-2"},
		{name: "a single server grows", dir: Directory{Cluster: 0x10, Name: "fanoutd", Single: true}, answers: answers{}, want: Start},
		{name: "one of another cluster", dir: Directory{Cluster: 0x10, Name: "node-1"}, answers: answers{"node-2": memberY}, refused: true, says: "node-2 belongs to cluster 11"},
		{name: "a stray one among its own", dir: Directory{Cluster: 0x10, Name: "node-1"}, answers: answers{"node-2": memberX, "node-3": memberY}, want: Start},
		{name: "two single servers", dir: Directory{Cluster: 0x10, Name: "fanoutd", Single: true}, answers: answers{"node-2": memberY}, refused: true, says: "belongs to cluster 10"},

		// Without data.
		{name: "its address does not answer", answers: answers{"node-1": silent, "node-2": empty, "node-3": empty}, says: "its own address"},
		{name: "its address leads to another", answers: answers{"node-1": empty, "node-2": empty, "node-3": empty}, says: "another one answers there"},
		{name: "its address leads to a member", answers: answers{"node-1": memberX, "node-2": memberX, "node-3": memberX}, says: "another one answers there"},
		{name: "two clusters", server: "node-3", answers: answers{"node-1": memberX, "node-2": memberY}, refused: true, says: "node-1 belongs to cluster 10, and node-2 belongs to cluster 11"},
		{name: "a cluster", server: "node-3", answers: answers{"node-1": memberX, "node-2": empty}, want: Join},
		{name: "a cluster of one that grew, and silence", answers: answers{"node-2": memberX}, want: Join},
		{name: "the directory of the founder is gone", answers: answers{"node-2": memberX, "node-3": memberX}, want: Join},
		{name: "all are empty", answers: answers{"node-2": empty, "node-3": empty}, want: Found},
		{name: "all are empty, not the founder", server: "node-2", answers: answers{"node-1": empty, "node-3": empty}, says: "node-1, which founds"},
		{name: "one is silent", answers: answers{"node-2": empty}, says: "node-3 (no answer)"},
		{name: "all are silent", answers: answers{}, says: "node-2 (no answer), node-3 (no answer)"},
		{name: "one is left out", answers: answers{"node-2": empty}, without: []string{"node-3"}, want: Found},
		{name: "another one is left out", answers: answers{"node-2": empty}, without: []string{"node-2"}, says: "node-3 (no answer)"},
		{name: "one that is left out answers", answers: answers{"node-2": empty, "node-3": empty}, without: []string{"node-3"}, want: Found},
		{name: "one that is left out has a cluster", answers: answers{"node-2": empty, "node-3": memberX}, without: []string{"node-3"}, want: Join},
		{name: "the first is left out", server: "node-2", answers: answers{"node-3": empty}, without: []string{"node-1"}, want: Found},
		{name: "the first is left out, and another one expects a third", server: "node-2", answers: answers{"node-3": expecting("node-3")}, without: []string{"node-1"}, says: "node-3, which expects node-3"},
		{name: "the first is left out, and answers", server: "node-2", answers: answers{"node-1": empty, "node-3": empty}, without: []string{"node-1"}, says: "node-1, which founds the cluster, because it answers"},
		{name: "two leave each other out, the first", answers: answers{"node-2": expecting("node-2"), "node-3": empty}, without: []string{"node-2"}, says: "node-2, which expects node-2"},
		{name: "two leave each other out, the second", server: "node-2", answers: answers{"node-1": empty, "node-3": empty}, without: []string{"node-1"}, says: "node-1, which founds"},
		{name: "the first is left out, and has answered before", server: "node-2", answers: answers{"node-2": own("node-1"), "node-3": empty}, without: []string{"node-1"}, says: "node-2, which expects node-1"},
		{name: "one expects another founder", answers: answers{"node-2": expecting("node-2"), "node-3": empty}, says: "node-2, which expects node-2"},
		{name: "another list", answers: answers{"node-2": otherList, "node-3": empty}, says: "node-2, which has other servers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.server == "" {
				tt.server = "node-1"
			}
			all := answers{"node-1": silent, "node-2": silent, "node-3": silent}
			all[tt.server] = own(list.founder(tt.without))
			maps.Copy(all, tt.answers)
			d, err := Decide(Situation{List: list, Name: tt.server, Process: "own", Directory: tt.dir, Without: tt.without, Answers: all})
			refusal, refused := errors.AsType[*Refusal](err)
			if refused {
				d.Reason = refusal.Reason
			}
			if d.Action != tt.want || refused != tt.refused || !strings.Contains(d.Reason, tt.says) {
				t.Errorf("got %+v, %v, want action %d, refused %v, saying %q", d, err, tt.want, tt.refused, tt.says)
			}
			for _, name := range d.For {
				if !strings.Contains(d.Reason, name) {
					t.Errorf("it waits for %v, and says %q", d.For, d.Reason)
				}
			}
			if waits := !refused && d.Action == Wait; waits != (len(d.For) > 0) {
				t.Errorf("got action %d, waiting for %v", d.Action, d.For)
			}
			if d.Action == Join && (len(d.Via) == 0 || d.Cluster != 0x10) {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// Only a minority may be left out, and only on the founder.
func TestCheckWithout(t *testing.T) {
	for _, tt := range []struct {
		without []string
		name    string
		says    string // empty: allowed
	}{
		{[]string{"node-3"}, "node-1", ""},
		{[]string{"node-1"}, "node-2", ""},
		{[]string{"node-3"}, "node-2", "the founder is node-1"},
		{[]string{"node-1"}, "node-1", "the founder is node-2"},
		{[]string{"node-2", "node-3"}, "node-1", "1 of 3 servers are left"},
		{[]string{"node-4"}, "node-1", "node-4 is not in cluster.members"},
	} {
		err := list.CheckWithout(tt.without, tt.name)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("without %v on %s: got %v, want %q", tt.without, tt.name, err, tt.says)
		}
	}
}
