package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Resources returns the resources of the server, sorted by name. With lag, the server also
// asks etcd for its revision and reports the lag behind it.
func (a *Admin) Resources(ctx context.Context, lag bool) ([]Resource, error) {
	resp, err := a.service.ListResources(ctx, &fanoutv1.ListResourcesRequest{MeasureLag: lag})
	if err != nil {
		return nil, fmt.Errorf("list resources: %w", client.ErrorOf(err))
	}
	rows := make([]Resource, len(resp.GetResources()))
	for i, s := range resp.GetResources() {
		rows[i] = resourceOf(a.Server, s)
	}
	return rows, nil
}

// MergeResources combines the resources of several servers. It sorts them by name and then
// by server, so that the rows of a resource are adjacent.
func MergeResources(answers []Answer[[]Resource]) []Resource {
	var all []Resource
	for _, a := range answers {
		all = append(all, a.Value...)
	}
	slices.SortStableFunc(all, func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Resource is a resource as shown in JSON and YAML. Durations are in seconds.
type Resource struct {
	Server   string           `json:"server"`
	Name     string           `json:"name"`
	State    string           `json:"state"` // loading, serving or cut-off
	Codec    string           `json:"codec"`
	Cached   bool             `json:"cached"`
	Fields   []string         `json:"fields,omitempty"`
	Position *client.Position `json:"position,omitempty"`
	Lag      *int64           `json:"lagRevisions,omitempty"`
	Age      *float64         `json:"ageSeconds,omitempty"`
	Objects  *int64           `json:"objects,omitempty"`
	Window   *Window          `json:"window,omitempty"`
	Watchers int64            `json:"watchers"`
	Filters  int64            `json:"distinctFilters"`
	Opaque   int64            `json:"opaqueValues"`

	Encrypted     bool   `json:"encrypted"`
	PrimaryKey    uint32 `json:"primaryKeyId,omitempty"`
	Undecryptable *int64 `json:"undecryptableObjects,omitempty"`

	Validation *Validation `json:"validation,omitempty"` // nil: there are no rules
}

// Validation describes the validation rules that a server enforces.
type Validation struct {
	Hash    string `json:"hash"`
	Problem string `json:"problem,omitempty"` // why the present files are not in use
}

// Window is the history of a resource that the server has in memory.
type Window struct {
	OldestRevision int64   `json:"oldestRevision"`
	Changes        int64   `json:"changes"`
	Bytes          int64   `json:"bytes"`
	Span           float64 `json:"spanSeconds"`
}

func resourceOf(server string, s *fanoutv1.ResourceStatus) Resource {
	r := Resource{
		Server: server, Name: s.GetName(), State: stateName(s.GetState()), Codec: s.GetCodec(), Cached: s.GetCached(), Fields: s.GetFields(),
		Position: position(s.GetPosition()), Lag: s.LagRevisions, Objects: s.Objects, Watchers: s.GetWatchers(),
		Filters: s.GetInterests(), Opaque: s.GetOpaqueValues(),
		Encrypted: s.GetEncrypted(), PrimaryKey: s.GetPrimaryKeyId(), Undecryptable: s.UndecryptableObjects,
	}
	if s.Age != nil {
		r.Age = new(s.GetAge().AsDuration().Seconds())
	}
	if w := s.GetWindow(); w != nil {
		r.Window = &Window{w.GetOldestRevision(), w.GetChanges(), w.GetBytes(), w.GetSpan().AsDuration().Seconds()}
	}
	if v := s.GetValidation(); v != nil {
		r.Validation = &Validation{Hash: v.GetHash(), Problem: v.GetProblem()}
	}
	return r
}

// stateName returns the name of a state that is shown, such as cut-off for STATE_CUT_OFF. A state
// that this version does not know has only a number.
func stateName(state fmt.Stringer) string {
	name, known := strings.CutPrefix(state.String(), "STATE_")
	if !known || name == "UNSPECIFIED" {
		return "unknown"
	}
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

func position(p *fanoutv1.Position) *client.Position {
	if p == nil {
		return nil
	}
	return &client.Position{Epoch: p.GetEpoch(), Revision: p.GetRevision()}
}

// ResourceColumns returns the columns of a table of resources. With several servers there is a
// column for the server.
func ResourceColumns(several bool) []output.Column[Resource] {
	return withServer(several, []output.Column[Resource]{
		{Title: "NAME", Cell: func(r Resource) string { return r.Name }, Style: output.Name},
		{Title: "STATE", Cell: func(r Resource) string { return r.State }},
		{Title: "CODEC", Cell: func(r Resource) string { return r.Codec }},
		{Title: "OBJECTS", Cell: Resource.objects, Right: true},
		{Title: "REVISION", Cell: func(r Resource) string { return revision(r.Position) }, Right: true},
		{Title: "LAG", Cell: func(r Resource) string { return number(r.Lag) }, Right: true},
		{Title: "WINDOW", Cell: Resource.window},
		{Title: "WATCHERS", Cell: func(r Resource) string { return number(&r.Watchers) }, Right: true},
		{Title: "FILTERS", Cell: func(r Resource) string { return number(&r.Filters) }, Right: true},
	}, func(r Resource) string { return r.Server })
}

// withServer adds a second column for the server if there are several servers.
func withServer[T any](several bool, columns []output.Column[T], server func(T) string) []output.Column[T] {
	if !several {
		return columns
	}
	return slices.Insert(columns, 1, output.Column[T]{Title: "SERVER", Cell: server})
}

func (r Resource) objects() string {
	if r.Undecryptable != nil && *r.Undecryptable > 0 {
		return fmt.Sprintf("%s (%d undecryptable)", number(r.Objects), *r.Undecryptable)
	}
	return number(r.Objects)
}

func (r Resource) window() string {
	switch w := r.Window; {
	case w != nil:
		return fmt.Sprintf("%d in %s (%s)", w.Changes, brief(w.Span), output.Size(w.Bytes))
	case !r.Cached:
		return "not cached"
	}
	return "-"
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// age formats the time that has passed.
func age(since time.Time) string { return brief(time.Since(since).Seconds()) }

// brief formats a number of seconds with two or three characters and a unit.
func brief(seconds float64) string {
	switch {
	case seconds < 0.001:
		return "0s"
	case seconds < 1:
		return fmt.Sprintf("%dms", int(seconds*1000))
	case seconds < 10:
		return fmt.Sprintf("%.1fs", seconds)
	case seconds < 2*60:
		return fmt.Sprintf("%.0fs", seconds)
	case seconds < 2*60*60:
		return fmt.Sprintf("%.0fm", seconds/60)
	case seconds < 48*60*60:
		return fmt.Sprintf("%.0fh", seconds/(60*60))
	}
	return fmt.Sprintf("%.0fd", seconds/(24*60*60))
}

func revision(p *client.Position) string {
	if p == nil {
		return "-"
	}
	return strconv.FormatInt(p.Revision, 10)
}
