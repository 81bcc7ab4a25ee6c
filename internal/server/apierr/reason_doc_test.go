package apierr

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/constants"
)

// reasonRow is what a client developer has to know about a reason.
type reasonRow struct {
	Reason   string
	Code     string
	Metadata []string
	Retry    bool
}

// examples are the errors that reasons are given for, at least one for each.
var examples = []error{
	InvalidError{{Field: "key", Description: "must not be empty"}},
	UnknownResourceError("x"),
	&NotFoundError{Key: "a", Revision: 1},
	ErrUnknownWatch,
	ErrWatchIDInUse,
	&ForeignWatchError{access.Identity{Name: "alice", Method: access.Token}, "config"},
	&ForeignWatchError{Resource: "config"},
	&cacher.FutureError{Asked: 2, Current: 1},
	&cacher.BehindError{Asked: 2, Have: 1},
	&ExpiredError{Asked: object.Position{Revision: 1}, Oldest: 2},
	&PageExpiredError{&ExpiredError{Asked: object.Position{Revision: 1}, Oldest: 2}, "t"},
	&catchup.LostError{Asked: 1, Oldest: 2, Current: 3},
	&catchup.EpochError{Asked: "a", Current: object.Position{Epoch: "b", Revision: 1}},
	&object.ConflictError{Key: "a", Want: 1, Have: 2, At: 3},
	&OpaqueError{Key: "a", ModRevision: 1, Codec: "object", Reason: errors.New("not an envelope")},
	&ValueRefusedError{Key: "a", Violations: InvalidError{{Field: "put.value/percent", Description: "must be at most 100, is 5000"}}},
	ErrContended,
	ErrNoHistory,
	object.ErrTooLarge,
	cacher.ErrNotReady,
	object.ErrUnavailable,
	object.ErrNoSpace,
	&object.FormingError{Voters: 1, Needed: 2},
	object.ErrNotApplied,
	object.ErrCorrupt,
	&WaitingError{For: "node-2"},
	object.ErrNotEmbedded,
	manage.ErrSingle,
	&manage.UnsafeError{Reason: "node-3 answers"},
	&manage.UnknownMemberError{Name: "node-9", Names: []string{"node-1"}},
	ErrDraining,
	ErrDrainedInTurn,
	ErrEndedByOperator,
	dispatch.ErrStopped,
	&access.RefusedError{Message: "no credentials"},
	access.ErrUnavailable,
	&DeniedError{access.Identity{Name: "alice", Method: access.Token}, policy.Question{Verb: policy.Get, Resource: "config"}},
	&DeniedError{Question: policy.Question{Verb: policy.Get, Resource: "config"}},
	ErrPanic,
	&LimitError{Name: MaxWatchersPerClient, Limit: 1, Client: "a"},
	&LimitError{Name: MaxRequestRate, Limit: 1, Client: "a", RetryAfter: time.Second},
	&LimitError{Name: MaxRequestSize, Limit: 1, Size: 2},
	object.ErrCompacted, // no client should ever see it
}

// served returns the errors that clients get for the examples, each reason once.
func served(t *testing.T) []reasonRow {
	t.Helper()
	var rows []reasonRow
	for _, err := range examples {
		st := status.Convert(Status(t.Context(), fmt.Errorf("somewhere: %w", err)))
		row := reasonRow{Code: code.Code(st.Code()).String()}
		for _, detail := range st.Details() {
			switch d := detail.(type) {
			case *errdetails.ErrorInfo:
				row.Reason = d.GetReason()
				row.Metadata = slices.Sorted(maps.Keys(d.GetMetadata()))
				for key, value := range d.GetMetadata() {
					if value == "" {
						t.Errorf("%s: metadata entry %s is empty", row.Reason, key)
					}
				}
			case *errdetails.RetryInfo:
				row.Retry = true
			}
		}
		if i := slices.IndexFunc(rows, func(r reasonRow) bool { return r.Reason == row.Reason }); i < 0 {
			rows = append(rows, row)
		} else if diff := cmp.Diff(rows[i], row); diff != "" {
			t.Errorf("%s does not always come with the same:\n%s", row.Reason, diff)
		}
	}
	return rows
}

// documented returns the rows of the table of reasons in docs/reference/errors.md.
func documented(t *testing.T) []reasonRow {
	t.Helper()
	doc, err := os.ReadFile("../../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "\n## Reasons\n")
	table, _, _ = strings.Cut(table, "\n## ")
	word := regexp.MustCompile("`([^`]+)`")
	words := func(cell string) []string {
		var all []string
		for _, match := range word.FindAllStringSubmatch(cell, -1) {
			all = append(all, match[1])
		}
		slices.Sort(all)
		return all
	}
	var rows []reasonRow
	for l := range strings.Lines(table) {
		if !strings.HasPrefix(l, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), "|")
		if len(cells) != 6 {
			t.Fatalf("%d cells, want 6, in: %s", len(cells), l)
		}
		row := reasonRow{Reason: strings.Join(words(cells[0]), " "), Code: strings.Join(words(cells[1]), " "), Metadata: words(cells[3])}
		switch retry := strings.TrimSpace(cells[4]); retry {
		case "yes":
			row.Retry = true
		case "no":
		default:
			t.Errorf("%s: retry is %q, want yes or no", row.Reason, retry)
		}
		for _, i := range []int{2, 5} {
			if text := strings.TrimSpace(cells[i]); !strings.HasSuffix(text, ".") {
				t.Errorf("%s: not a sentence: %q", row.Reason, text)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func reasonsOf(rows []reasonRow) []string {
	var reasons []string
	for _, r := range rows {
		reasons = append(reasons, r.Reason)
	}
	return reasons
}

func TestTheDocumentedReasonsAreThoseThatAreServed(t *testing.T) {
	byReason := cmp.Transformer("byReason", func(rows []reasonRow) map[string]reasonRow {
		m := map[string]reasonRow{}
		for _, r := range rows {
			m[r.Reason] = r
		}
		return m
	})
	got, docs := served(t), documented(t)
	if diff := cmp.Diff(docs, got, byReason); diff != "" {
		t.Errorf("-docs/reference/errors.md +served:\n%s", diff)
	}
	if diff := cmp.Diff(constants.Of[string](t, "reason.go", "Reason"), reasonsOf(docs)); diff != "" {
		t.Errorf("-reason.go +docs/reference/errors.md:\n%s", diff)
	}
	for reason := range meanings {
		if !slices.Contains(reasonsOf(got), string(reason)) {
			t.Errorf("%s is never served", reason)
		}
	}
}

// The limiter counts refusals only for the limits of the list.
func TestTheListOfLimitsIsComplete(t *testing.T) {
	if diff := cmp.Diff(constants.Of[Limit](t, "reason.go", "Limit"), Limits); diff != "" {
		t.Errorf("-constants +Limits:\n%s", diff)
	}
}

func TestClipKeepsCharactersWhole(t *testing.T) {
	for _, c := range []struct {
		s     string
		limit int
		want  string
	}{
		{"", 5, ""},
		{"12345", 5, "12345"},
		{"123456", 5, "12..."},
		{"äää", 6, "äää"},
		{"äää", 5, "ä..."},
		{"1äää", 5, "1..."},
		{"1äää", 6, "1ä..."},
	} {
		if got := Clip(c.s, c.limit); got != c.want {
			t.Errorf("clip(%q, %d) = %q, want %q", c.s, c.limit, got, c.want)
		}
	}
}
