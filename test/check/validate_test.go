package check_test

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// broken is a history that breaks guarantees.
type broken struct {
	name    string
	history *check.History
	broken  string // the guarantees that are broken
	says    string // part of the error
}

// For each broken history, exactly the functions of the broken guarantees return an error.
func TestBrokenHistoriesAreFound(t *testing.T) {
	tables := []struct {
		name      string
		histories []broken
		with      check.Conditions
	}{
		{"streams", brokenStreams(t), check.Conditions{Window: 4}},
		{"deltas", brokenDeltas(), check.Conditions{Window: 4, Tombstones: 2}},
		{"merged", brokenMerges(), check.Conditions{Window: 4}},
		{"views", brokenViews(), check.Conditions{Window: 4}},
		{"gaps", brokenAcrossGap(), check.Conditions{Gaps: []check.Gap{theGap}}},
		{"endings", brokenEndings(), check.Conditions{Window: 4}},
		{"silences", brokenSilences(), noon.conditions()},
		{"neighbours", brokenNeighbours(), noon.busy()},
		{"severed", brokenWhileSevered(), noon.severed()},
		{"present", []broken{{"within the window", shared(0), "resumable", "4 is at most 4 changes behind, of 4"}}, writing()},
	}
	caught := map[string]bool{}
	for _, table := range tables {
		for _, test := range table.histories {
			t.Run(table.name+"/"+test.name, func(t *testing.T) { isCaught(t, test, table.with) })
			caught[test.broken] = true
		}
	}
	for _, g := range check.Guarantees {
		if !caught[g.Name] {
			t.Errorf("no history breaks only %s", g.Name)
		}
	}
}

func isCaught(t *testing.T, test broken, with check.Conditions) {
	t.Helper()
	truth := newTruth(t)
	truth.Conditions = with
	err := check.Validate(test.history, truth)
	if err == nil {
		t.Fatalf("got no error, want %s", test.broken)
	}
	var broken []string
	for _, g := range check.Guarantees {
		if err := g.Check(test.history, truth); err != nil {
			broken = append(broken, g.Name)
			if !strings.Contains(err.Error(), "watcher broke "+g.Name+": ") {
				t.Errorf("error of %s: got %q", g.Name, err)
			}
		}
	}
	if got := strings.Join(broken, " "); got != test.broken {
		t.Errorf("broken guarantees: got %s, want %s\n%v", got, test.broken, err)
	}
	if !strings.Contains(err.Error(), test.says) {
		t.Errorf("error: got %v\nwant one with %q", err, test.says)
	}
}

func TestImpossibleHistoriesAreRefused(t *testing.T) {
	snapshot := []check.Message{begin(object.Reset, 0), part(0, objects(change{"a", 2}, change{"b", 3})), synced(3)}
	tests := map[string]struct {
		history *check.History
		says    string
	}{
		"resume elsewhere":           {all(fromNothing(snapshot...), after(2)), "stream 1 resumes at e1/2, which is not the last position e1/3"},
		"resume at nothing":          {all(fromNothing(), after(2)), "not the last position"},
		"position beyond the truth":  {all(fromNow(bookmark(10))), "stream 0, message 0 goes to revision 10, the truth ends at 9"},
		"knowledge beyond the truth": {all(notBefore(10, fromNothing())), "knows of revision 10, the truth ends at 9"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := check.Validate(test.history, newTruth(t))
			if err == nil || !strings.HasPrefix(err.Error(), "cannot check: ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want one with %q", err, test.says)
			}
		})
	}
}
