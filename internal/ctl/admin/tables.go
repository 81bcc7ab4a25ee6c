package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Resource is a resource as shown in JSON and YAML. Durations are in seconds.
type Resource struct {
	Server   string           `json:"server"`
	Name     string           `json:"name"`
	State    string           `json:"state"` // loading, serving or cut-off
	Codec    string           `json:"codec"`
	Cached   bool             `json:"cached"`
	Fields   []string         `json:"fields,omitempty"`
	Position *output.Position `json:"position,omitempty"`
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
		Server: server, Name: s.GetName(), State: resourceState(s.GetState()), Codec: s.GetCodec(), Cached: s.GetCached(), Fields: s.GetFields(),
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
	return r
}

func resourceState(s fanoutv1.ResourceStatus_State) string {
	switch s {
	case fanoutv1.ResourceStatus_STATE_LOADING:
		return "loading"
	case fanoutv1.ResourceStatus_STATE_SERVING:
		return "serving"
	case fanoutv1.ResourceStatus_STATE_CUT_OFF:
		return "cut-off"
	}
	return "unknown"
}

func position(p *fanoutv1.Position) *output.Position {
	if p == nil {
		return nil
	}
	return &output.Position{Epoch: p.GetEpoch(), Revision: p.GetRevision()}
}

// ResourceTable returns the columns of a table of resources and the function for its cells.
// With several servers there is a column for the server.
func ResourceTable(several bool) ([]output.Column, func(Resource) []string) {
	return table(several, resourceColumns(), Resource.cells, func(r Resource) string { return r.Server })
}

// table adds a second column for the server if there are several servers.
func table[T any](several bool, columns []output.Column, cells func(T) []string, server func(T) string) ([]output.Column, func(T) []string) {
	if !several {
		return columns, cells
	}
	return slices.Insert(columns, 1, output.Column{Title: "SERVER"}), func(row T) []string {
		return slices.Insert(cells(row), 1, server(row))
	}
}

func resourceColumns() []output.Column {
	return []output.Column{
		{Title: "NAME", Style: output.Name},
		{Title: "STATE"},
		{Title: "CODEC"},
		{Title: "OBJECTS", Right: true},
		{Title: "REVISION", Right: true},
		{Title: "LAG", Right: true},
		{Title: "WINDOW"},
		{Title: "WATCHERS", Right: true},
		{Title: "FILTERS", Right: true},
	}
}

func (r Resource) cells() []string {
	window := "-"
	switch {
	case r.Window != nil:
		window = fmt.Sprintf("%d in %s (%s)", r.Window.Changes, Brief(seconds(r.Window.Span)), humanize.IBytes(uint64(r.Window.Bytes)))
	case !r.Cached:
		window = "not cached"
	}
	objects := number(r.Objects)
	if r.Undecryptable != nil && *r.Undecryptable > 0 {
		objects += fmt.Sprintf(" (%d undecryptable)", *r.Undecryptable)
	}
	return []string{
		r.Name, r.State, r.Codec, objects, revision(r.Position), number(r.Lag), window,
		strconv.FormatInt(r.Watchers, 10), strconv.FormatInt(r.Filters, 10),
	}
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Brief formats a duration with two or three characters and a unit.
func Brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0fm", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0fh", d.Hours())
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}

// Watcher is a watch as shown in JSON and YAML. Durations are in seconds.
type Watcher struct {
	Server    string           `json:"server"`
	ID        string           `json:"id"`
	Peer      string           `json:"peer"`
	UserAgent string           `json:"userAgent,omitempty"`
	Identity  string           `json:"identity,omitempty"`
	Resource  string           `json:"resource"`
	Prefix    string           `json:"prefix,omitempty"`
	Key       string           `json:"key,omitempty"`
	Labels    string           `json:"labelSelector,omitempty"`
	Fields    string           `json:"fieldSelector,omitempty"`
	State     string           `json:"state"` // live or catching-up
	Blocked   bool             `json:"blocked"`
	Since     time.Time        `json:"since"`
	Position  *output.Position `json:"position,omitempty"`
	LagEvents *int64           `json:"lagEvents,omitempty"`
	Lag       *float64         `json:"lagSeconds,omitempty"`
	LagIsMin  bool             `json:"lagIsMinimum,omitempty"` // the lag is at least Lag
	Messages  int64            `json:"messages"`
	Bytes     int64            `json:"bytes"`

	Instance       string            `json:"instance,omitempty"`       // the name that the subscriber has given itself
	InstanceLabels map[string]string `json:"instanceLabels,omitempty"` // its labels
	Applied        *output.Position  `json:"applied,omitempty"`        // as reported
	AppliedLag     *float64          `json:"appliedLagSeconds,omitempty"`
	Error          *ReportedError    `json:"error,omitempty"` // the last one reported
	ErrorTime      *time.Time        `json:"errorTime,omitempty"`
	FailedKeys     []string          `json:"failedKeys,omitempty"` // of the objects to which the error belongs; none: unknown
	Attempted      *output.Position  `json:"attempted,omitempty"`  // with an error: everything up to it is applied or has failed
	Reports        bool              `json:"reports"`              // what it has applied
}

// About returns the watcher as it looks to a reader of one object: an error that belongs to other
// objects does not matter.
func (w Watcher) About(key string, modRevision int64) Watcher {
	if w.Error == nil || len(w.FailedKeys) == 0 || slices.Contains(w.FailedKeys, key) {
		return w
	}
	w.Error, w.ErrorTime = nil, nil
	if w.Attempted != nil && w.Attempted.Revision >= modRevision {
		w.AppliedLag = new(0.0)
	}
	return w
}

func watcherOf(server string, s *fanoutv1.WatcherStatus) Watcher {
	req := s.GetRequest()
	w := Watcher{
		Server: server, ID: s.GetId(), Peer: s.GetPeer(), UserAgent: s.GetUserAgent(), Identity: s.GetIdentity(), Resource: req.GetResource(),
		Prefix: req.GetScope().GetPrefix(), Key: req.GetScope().GetKey(), Labels: req.GetLabelSelector(), Fields: req.GetFieldSelector(),
		State: "live", Blocked: s.GetBlocked(), Since: s.GetSince().AsTime(), Position: position(s.GetPosition()),
		LagEvents: s.LagEvents, LagIsMin: s.GetLagIsMinimum(), Messages: s.GetMessages(), Bytes: s.GetBytes(),
		Instance: s.GetSubscriber().GetInstance(), InstanceLabels: s.GetSubscriber().GetLabels(),
		Applied: position(s.GetApplied()), Error: reportedErrorOf(client.ErrorOfStatus(s.GetError())),
	}
	if s.GetState() == fanoutv1.WatcherStatus_STATE_CATCHING_UP {
		w.State = "catching-up"
	}
	if s.Lag != nil {
		w.Lag = new(s.GetLag().AsDuration().Seconds())
	}
	if s.AppliedLag != nil {
		w.AppliedLag = new(s.GetAppliedLag().AsDuration().Seconds())
	}
	if w.Error != nil && s.ErrorTime != nil {
		w.ErrorTime = new(s.GetErrorTime().AsTime())
	}
	w.FailedKeys, w.Attempted, w.Reports = s.GetFailedKeys(), position(s.GetAttempted()), s.GetReports()
	return w
}

// WatcherTable returns the columns of a table of watchers and the function for its cells.
// With several servers there is a column for the server. A wide table also has the labels of the
// subscriber, the revisions that were sent and applied, and the last error that it has reported.
func WatcherTable(several, wide bool) ([]output.Column, func(Watcher) []string) {
	columns, cells := watcherColumns(), Watcher.cells
	if wide {
		columns, cells = append(columns, wideWatcherColumns()...), Watcher.wideCells
	}
	return table(several, columns, cells, func(w Watcher) string { return w.Server })
}

func watcherColumns() []output.Column {
	return []output.Column{
		{Title: "ID", Style: output.Name},
		{Title: "INSTANCE"},
		{Title: "PEER"},
		{Title: "RESOURCE"},
		{Title: "STATE"},
		{Title: "BEHIND", Right: true},
		{Title: "EVENTS", Right: true},
		{Title: "APPLIED", Right: true},
		{Title: "SENT", Right: true},
		{Title: "AGE", Right: true},
		{Title: "FILTER"},
	}
}

// wideWatcherColumns are the columns that only a wide table has, after the others.
func wideWatcherColumns() []output.Column {
	return []output.Column{
		{Title: "LABELS"},
		{Title: "SENT REVISION", Right: true},
		{Title: "APPLIED REVISION", Right: true},
		{Title: "FAILED KEYS"},
		{Title: "ERROR", Whole: true},
	}
}

// cells shows the state "blocked" for a watch whose client does not read. The column APPLIED has
// the age of the oldest event that is not applied, or "failed".
func (w Watcher) cells() []string {
	state, behind, applied := w.State, "-", "-"
	if w.Blocked {
		state = "blocked"
	}
	switch {
	case w.hasNothing():
		behind = "all"
	case w.Lag != nil:
		behind = Brief(seconds(*w.Lag))
		if w.LagIsMin {
			behind = ">" + behind
		}
	}
	switch {
	case w.Error != nil:
		applied = "failed"
	case w.AppliedLag != nil:
		applied = Brief(seconds(*w.AppliedLag))
	}
	return []string{
		w.ID, cmp.Or(w.Instance, "-"), peer(w.Identity, w.Peer), w.Resource, state, behind, number(w.LagEvents), applied,
		humanize.IBytes(uint64(w.Bytes)), Brief(time.Since(w.Since)), w.filter(),
	}
}

// peer returns the address of a client after its identity, as one word.
func peer(identity, address string) string {
	if identity == "" {
		return address
	}
	return strings.Join(strings.Fields(identity), "_") + "@" + address
}

func (w Watcher) wideCells() []string {
	report := "-"
	if w.Error != nil {
		report = w.Error.String()
	}
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(w.InstanceLabels)) {
		labels = append(labels, name+"="+w.InstanceLabels[name])
	}
	return append(w.cells(), cmp.Or(strings.Join(labels, ","), "-"), revision(w.Position), revision(w.Applied), fewKeys(w.FailedKeys), report)
}

// fewKeys shows the first of the keys, and the number of the others.
func fewKeys(keys []string) string {
	const few = 3
	shown := cmp.Or(strings.Join(keys[:min(few, len(keys))], " "), "-")
	if more := len(keys) - few; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}

func revision(p *output.Position) string {
	if p == nil {
		return "-"
	}
	return strconv.FormatInt(p.Revision, 10)
}

// filter describes the scope and the selectors of the watch.
func (w Watcher) filter() string {
	var parts []string
	switch {
	case w.Key != "":
		parts = append(parts, w.Key)
	case w.Prefix != "":
		parts = append(parts, strings.TrimSuffix(w.Prefix, "/")+"/")
	}
	if w.Labels != "" {
		parts = append(parts, "-l "+strconv.Quote(w.Labels))
	}
	if w.Fields != "" {
		parts = append(parts, "--fields "+strconv.Quote(w.Fields))
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, " ")
}
