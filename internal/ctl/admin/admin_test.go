package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Watchers are sorted by lag over all servers, and then by start. With --all they are
// sorted by start.
func TestMergeWatchers(t *testing.T) {
	watcher := func(id string, lag float64, began int64) Watcher {
		return Watcher{ID: id, Lag: &lag, Since: time.Unix(began, 0)}
	}
	lost := Watcher{ID: "lost", Since: time.Unix(2, 0)} // its lag is unknown
	reset := Watcher{ID: "reset", Since: time.Unix(8, 0), Position: &client.Position{}}
	answers := []Answer[WatcherList]{
		{Server: "a:1", Value: WatcherList{Watchers: []Watcher{reset, watcher("a9", 9, 6), watcher("a1", 1, 1), watcher("a0", 0, 5)}, Total: 4}},
		{Server: "b:1", Err: fmt.Errorf("away")},
		{Server: "c:1", Value: WatcherList{Watchers: []Watcher{watcher("c10", 10, 7), watcher("c1", 1, 3), lost, watcher("c0", 0, 4)}, Total: 5}},
	}
	for byLag, want := range map[bool]string{true: "reset c10 a9 a1 c1 lost c0 a0", false: "a1 lost c1 c0 a0 a9 c10 reset"} {
		merged := MergeWatchers(answers, byLag)
		var ids []string
		for _, w := range merged.Watchers {
			ids = append(ids, w.ID)
		}
		if got := strings.Join(ids, " "); got != want || merged.Total != 9 {
			t.Errorf("by lag %v: got %s of %d, want %s of 9", byLag, got, merged.Total, want)
		}
	}
	many := WatcherList{Watchers: make([]Watcher, MaxByLag), Total: 5000, Failing: 3}
	answers = []Answer[WatcherList]{{Value: many}, {Value: many}}
	if all, first := MergeWatchers(answers, false), MergeWatchers(answers, true); len(all.Watchers) != 2*MaxByLag || len(first.Watchers) != MaxByLag || first.Total != 10_000 || first.Failing != 6 {
		t.Errorf("got %d unsorted and %d by lag of %d, of which %d fail, want 2000 and 1000 of 10000, of which 6 fail", len(all.Watchers), len(first.Watchers), first.Total, first.Failing)
	}
}

// A lag of which only a minimum is known comes before a known one, and a blocked watcher
// before all others.
func TestWatchersAreMergedInTheOrderOfTheServers(t *testing.T) {
	known := Watcher{ID: "known", Lag: new(600.0), Position: &client.Position{Revision: 1}}
	minimum := Watcher{ID: "minimum", Lag: new(300.0), LagIsMin: true, Position: &client.Position{Revision: 1}}
	reset := Watcher{ID: "reset", Position: &client.Position{}}
	blocked := Watcher{ID: "blocked", Lag: new(1.0), Blocked: true, Position: &client.Position{Revision: 1}}
	merged := MergeWatchers([]Answer[WatcherList]{
		{Value: WatcherList{Watchers: []Watcher{reset, known}}}, {Value: WatcherList{Watchers: []Watcher{blocked, minimum}}},
	}, true)
	var ids []string
	for _, w := range merged.Watchers {
		ids = append(ids, w.ID)
	}
	if got, want := strings.Join(ids, " "), "blocked reset minimum known"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// If only the minimum of a lag is known, it has the mark ">". Such a watcher is behind, even if
// the minimum is 0.
func TestLagIsShown(t *testing.T) {
	columns := WatcherColumns(false, false)
	at := slices.IndexFunc(columns, func(c output.Column[Watcher]) bool { return c.Title == "BEHIND" })
	some := &client.Position{Revision: 1}
	for _, c := range []struct {
		watcher Watcher
		want    string
		behind  bool
	}{
		{Watcher{Position: some}, "-", false}, // without a cache
		{Watcher{Position: some, Lag: new(0.0)}, "0s", false},
		{Watcher{Position: some, Lag: new(5.0)}, "5.0s", true},
		{Watcher{Position: some, Lag: new(5.0), LagIsMin: true}, ">5.0s", true},
		{Watcher{Position: some, Lag: new(0.0), LagIsMin: true}, ">0s", true},
		{Watcher{Position: &client.Position{}}, "all", true},
	} {
		if got := columns[at].Cell(c.watcher); got != c.want || c.watcher.IsBehind() != c.behind {
			t.Errorf("%+v: got %q, behind %v, want %q, %v", c.watcher, got, c.watcher.IsBehind(), c.want, c.behind)
		}
	}
}

// The identity of the watcher comes before its address.
func TestWatcherIdentityIsShown(t *testing.T) {
	columns := WatcherColumns(false, false)
	at := slices.IndexFunc(columns, func(c output.Column[Watcher]) bool { return c.Title == "PEER" })
	for identity, want := range map[string]string{"": "10.0.0.1:2", "shop": "shop@10.0.0.1:2", "my shop": "my_shop@10.0.0.1:2"} {
		if got := columns[at].Cell(Watcher{Identity: identity, Peer: "10.0.0.1:2"}); got != want {
			t.Errorf("identity %q: got %q, want %q", identity, got, want)
		}
	}
}

// The number of undecryptable objects is shown beside the number of objects.
func TestUndecryptableObjectsAreShown(t *testing.T) {
	columns := ResourceColumns(false)
	at := slices.IndexFunc(columns, func(c output.Column[Resource]) bool { return c.Title == "OBJECTS" })
	for undecryptable, want := range map[int64]string{0: "5", 3: "5 (3 undecryptable)"} {
		if got := columns[at].Cell(Resource{Objects: new(int64(5)), Undecryptable: &undecryptable}); got != want {
			t.Errorf("%d undecryptable: got %q, want %q", undecryptable, got, want)
		}
	}
}

// testPages is a server that answers with pages of watchers. The token of a page is its number.
type testPages struct {
	fanoutv1.AdminServiceClient
	pages []*fanoutv1.ListWatchersResponse
}

func (s testPages) ListWatchers(_ context.Context, req *fanoutv1.ListWatchersRequest, _ ...grpc.CallOption) (*fanoutv1.ListWatchersResponse, error) {
	page, _ := strconv.Atoi(req.GetPageToken())
	return s.pages[page], nil
}

// Watches begin and end between two pages, so that the numbers of the last page differ from
// the watchers of all pages. By lag there is one page, which need not have all watchers.
func TestNumbersAgreeWithTheWatchers(t *testing.T) {
	live, failing := &fanoutv1.WatcherStatus{}, &fanoutv1.WatcherStatus{Error: status.New(codes.Unknown, "x").Proto()}
	all := &Admin{service: testPages{pages: []*fanoutv1.ListWatchersResponse{
		{Watchers: []*fanoutv1.WatcherStatus{failing, live, failing}, NextPageToken: "1", Total: 4, Failing: 2},
		{Watchers: []*fanoutv1.WatcherStatus{failing}, Total: 2, Failing: 1},
	}}}
	if got, err := all.Watchers(t.Context(), "", false, false); err != nil || len(got.Watchers) != 4 || got.Total != 4 || got.Failing != 3 {
		t.Errorf("got %d watchers of %d, of which %d fail, %v, want 4 of 4, of which 3 fail", len(got.Watchers), got.Total, got.Failing, err)
	}
	first := &Admin{service: testPages{pages: []*fanoutv1.ListWatchersResponse{
		{Watchers: []*fanoutv1.WatcherStatus{failing, live}, Total: 5000, Failing: 70},
	}}}
	if got, err := first.Watchers(t.Context(), "", true, false); err != nil || len(got.Watchers) != 2 || got.Total != 5000 || got.Failing != 70 {
		t.Errorf("by lag: got %d watchers of %d, of which %d fail, %v, want 2 of 5000, of which 70 fail", len(got.Watchers), got.Total, got.Failing, err)
	}
}

// A later version of the server may have states that this version does not know.
func TestStatesAreShown(t *testing.T) {
	for state, want := range map[fanoutv1.ResourceStatus_State]string{
		fanoutv1.ResourceStatus_STATE_LOADING: "loading", fanoutv1.ResourceStatus_STATE_SERVING: "serving",
		fanoutv1.ResourceStatus_STATE_CUT_OFF: "cut-off", fanoutv1.ResourceStatus_STATE_UNSPECIFIED: "unknown", 99: "unknown",
	} {
		if got := resourceOf("", &fanoutv1.ResourceStatus{State: state}).State; got != want {
			t.Errorf("resource in %v: got %q, want %q", state, got, want)
		}
	}
	for state, want := range map[fanoutv1.WatcherStatus_State]string{
		fanoutv1.WatcherStatus_STATE_CATCHING_UP: "catching-up", fanoutv1.WatcherStatus_STATE_LIVE: "live",
		fanoutv1.WatcherStatus_STATE_UNSPECIFIED: "unknown", 99: "unknown",
	} {
		if got := watcherOf("", &fanoutv1.WatcherStatus{State: state}).State; got != want {
			t.Errorf("watcher in %v: got %q, want %q", state, got, want)
		}
	}
}

// Rows of one resource are adjacent, in the order of the servers.
func TestMergeResources(t *testing.T) {
	at := func(server string, names ...string) Answer[[]Resource] {
		a := Answer[[]Resource]{Server: server}
		for _, n := range names {
			a.Value = append(a.Value, Resource{Server: server, Name: n})
		}
		return a
	}
	var got []string
	for _, r := range MergeResources([]Answer[[]Resource]{at("b:1", "x", "z"), at("a:1", "x", "y")}) {
		got = append(got, r.Name+"@"+r.Server)
	}
	if want := []string{"x@b:1", "x@a:1", "y@a:1", "z@b:1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What the subscriber has reported is shown: the applied lag or that it has failed, and in a
// wide table the revisions and the error.
func TestReportsAreShown(t *testing.T) {
	columns := WatcherColumns(true, true)
	at := func(title string) int {
		return slices.IndexFunc(columns, func(c output.Column[Watcher]) bool { return c.Title == title })
	}
	report := &ReportedError{Code: "InvalidArgument", Message: "bad rps"}
	for _, c := range []struct {
		watcher Watcher
		want    []string
	}{
		{Watcher{}, []string{"-", "-", "-", "-", "-", "-", "-"}},
		{
			Watcher{Instance: "web-1", InstanceLabels: map[string]string{"zone": "eu", "app": "web"}, Position: &client.Position{Revision: 9}, Applied: &client.Position{Revision: 7}, AppliedLag: new(5.0)},
			[]string{"web-1", "5.0s", "app=web,zone=eu", "9", "7", "-", "-"},
		},
		{
			Watcher{AppliedLag: new(5.0), Error: report, FailedKeys: []string{"a", "b"}},
			[]string{"-", "failed", "-", "-", "-", "a b", "bad rps (InvalidArgument)"},
		},
		{
			Watcher{Error: &ReportedError{Code: "Unknown"}, FailedKeys: []string{"a", "b", "c", "d", "e"}},
			[]string{"-", "failed", "-", "-", "-", "a b c and 2 more", "(Unknown)"},
		},
	} {
		var got []string
		for _, title := range []string{"INSTANCE", "APPLIED", "LABELS", "SENT REVISION", "APPLIED REVISION", "FAILED KEYS", "ERROR"} {
			got = append(got, columns[at(title)].Cell(c.watcher))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q, want %q", c.watcher, got, c.want)
		}
	}
}

// To a reader of one object, an error that names only other objects does not matter.
func TestAnErrorOfOtherObjectsDoesNotMatter(t *testing.T) {
	columns := WatcherColumns(false, false)
	at := slices.IndexFunc(columns, func(c output.Column[Watcher]) bool { return c.Title == "APPLIED" })
	report, attempted := &ReportedError{Code: "Unknown", Message: "x"}, &client.Position{Epoch: "e", Revision: 7}
	for _, c := range []struct {
		watcher     Watcher
		modRevision int64
		want        string
	}{
		{Watcher{Error: report, Attempted: attempted}, 5, "failed"},
		{Watcher{Error: report, Attempted: attempted, FailedKeys: []string{"b", "a"}}, 5, "failed"},
		{Watcher{Error: report, Attempted: attempted, FailedKeys: []string{"b"}, AppliedLag: new(3.0)}, 5, "0s"},
		{Watcher{Error: report, Attempted: attempted, FailedKeys: []string{"b"}, AppliedLag: new(3.0)}, 7, "0s"},
		{Watcher{Error: report, Attempted: attempted, FailedKeys: []string{"b"}, AppliedLag: new(3.0)}, 8, "3.0s"},
		{Watcher{Error: report, FailedKeys: []string{"b"}, AppliedLag: new(3.0)}, 5, "3.0s"},
		{Watcher{AppliedLag: new(3.0)}, 5, "3.0s"},
	} {
		if got := columns[at].Cell(c.watcher.About("a", c.modRevision)); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.watcher, got, c.want)
		}
	}
}
