package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

func TestContradictoryTruthIsRefused(t *testing.T) {
	tests := map[string]struct {
		tamper  func([]check.Change) []check.Change
		through object.Revision
		says    string
	}{
		"intact":                  {func(c []check.Change) []check.Change { return c }, end, ""},
		"goes further":            {func(c []check.Change) []check.Change { return c }, end + 5, ""},
		"ends too early":          {func(c []check.Change) []check.Change { return c }, end - 1, "goes to 8 only"},
		"revisions go back":       {func(c []check.Change) []check.Change { c[0], c[1] = c[1], c[0]; return c }, end, "comes after revision 3"},
		"key twice in a revision": {func(c []check.Change) []check.Change { return slices.Insert(c, 1, c[0]) }, end, "changes twice"},
		"deletion of nothing":     {func(c []check.Change) []check.Change { return c[2:] }, end, ""},
		"lost put":                {func(c []check.Change) []check.Change { return slices.Delete(c, 1, 2) }, end, "it did not exist"},
		"lost first put":          {func(c []check.Change) []check.Change { return c[1:] }, end, "should be 4 and 1"},
		"object of another key": {func(c []check.Change) []check.Change {
			c[0].New = &object.Decoded{Key: "b", ModRevision: 2, CreateRevision: 2, Version: 1}
			return c
		}, end, "another key"},
		"object of another revision": {func(c []check.Change) []check.Change {
			c[0].New = &object.Decoded{Key: "a", ModRevision: 1, CreateRevision: 1, Version: 1}
			return c
		}, end, "mod revision 1"},
	}
	// Without the puts of a and b, the deletion is the first contradiction.
	deletion := tests["deletion of nothing"]
	deletion.tamper = func(c []check.Change) []check.Change { return []check.Change{c[4]} }
	deletion.says = "it did not exist"
	tests["deletion of nothing"] = deletion

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := check.NewTruth(test.tamper(changesOf(happened...)), test.through)
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want one with %q", err, test.says)
			}
		})
	}
}

func TestTruthHasTheRevisionBeforeSomeChanges(t *testing.T) {
	truth, err := check.NewTruth(changesOf(happened...), end)
	if err != nil {
		t.Fatal(err)
	}
	for n := range truth.Len() {
		before := truth.Before(end, n)
		got := len(slices.Collect(truth.Between(object.Scope{}, before, end)))
		after := len(slices.Collect(truth.Between(object.Scope{}, before+1, end)))
		if got < n || n > 0 && after >= n {
			t.Errorf("before %d changes: got revision %d with %d changes after it, %d after the next", n, before, got, after)
		}
	}
	if got := truth.Before(end, truth.Len()+1); got != 0 {
		t.Errorf("before more changes than there are: got %d, want 0", got)
	}
}

func TestTruthHasEveryState(t *testing.T) {
	team, err := object.ParsePrefix("team")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		scope object.Scope
		at    object.Revision
		want  []change
	}{
		{object.Scope{}, 0, nil},
		{object.Scope{}, 1, nil},
		{object.Scope{}, 3, []change{{"a", 2}, {"b", 3}}},
		{object.Scope{}, 4, []change{{"a", 4}, {"b", 3}, {"c", 4}}},
		{object.Scope{}, 5, []change{{"a", 4}, {"c", 4}}},
		{object.Scope{}, 7, []change{{"a", 7}, {"b", 6}}},
		{object.Scope{}, 100, []change{{"a", 9}, {"b", 6}, {"team/x", 8}}},
		{team, 7, nil},
		{team, 8, []change{{"team/x", 8}}},
		{object.ExactKey("c"), 6, []change{{"c", 4}}},
		{object.ExactKey("c"), 7, nil},
	}
	truth := newTruth(t)
	for _, test := range tests {
		var got []change
		for _, o := range truth.State(test.scope, test.at) {
			got = append(got, change{o.Key, o.ModRevision})
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(change{})); diff != "" {
			t.Errorf("state of %v at %d (-want +got):\n%s", test.scope, test.at, diff)
		}
	}
}

func TestPrintShowsTheNumbersOfMessages(t *testing.T) {
	history := all(
		fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2)),
		after(2, begin(object.Replay, 2), synced(2), partial(live(2, events(change{"b", 3}))), message(99, 2, nil)),
		fromNow(check.Message{Header: object.Header{Kind: object.Bookmark, CatchUp: 99}}),
	)
	history.Streams[0].End = "cut off"
	var got strings.Builder
	if err := history.Print(&got); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"watcher watches *",
		"stream 0: from nothing, not before 0",
		"     0 CATCH_UP_BEGIN RESET -> e1/0",
		"     1 CATCH_UP_PART +a@2 -> e1/0",
		"     2 SYNCED -> e1/2",
		"   end: cut off",
		"stream 1: after e1/2",
		"     0 CATCH_UP_BEGIN REPLAY -> e1/2",
		"     1 SYNCED -> e1/2",
		"     2 LIVE +b@3 (partial) -> e1/2",
		"     3 kind 99 -> e1/2",
		"   end: ",
		"stream 2: from now, not before 0",
		"     0 BOOKMARK catch-up 99 -> /0",
		"   end: ",
		"",
	}, "\n")
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	got.Reset()
	if err := newTruth(t).Print(&got); err != nil {
		t.Fatal(err)
	}
	if want := "       7 ~a@7 version 3\n       7 -c@7 version 1\n"; !strings.Contains(got.String(), want) {
		t.Errorf("got\n%swithout\n%s", got.String(), want)
	}
}
