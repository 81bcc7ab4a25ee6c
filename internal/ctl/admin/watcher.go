package admin

import (
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Watcher is a watch as it is shown in JSON and YAML. Durations are in seconds.
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
	Messages  int64            `json:"messages"`
	Bytes     int64            `json:"bytes"`
}

func watcherOf(server string, s *fanoutv1.WatcherStatus) Watcher {
	req := s.GetRequest()
	w := Watcher{
		Server: server, ID: s.GetId(), Peer: s.GetPeer(), UserAgent: s.GetUserAgent(), Identity: s.GetIdentity(), Resource: req.GetResource(),
		Prefix: req.GetScope().GetPrefix(), Key: req.GetScope().GetKey(), Labels: req.GetLabelSelector(), Fields: req.GetFieldSelector(),
		State: "live", Blocked: s.GetBlocked(), Since: s.GetSince().AsTime(), Position: position(s.GetPosition()),
		LagEvents: s.LagEvents, Messages: s.GetMessages(), Bytes: s.GetBytes(),
	}
	if s.GetState() == fanoutv1.WatcherStatus_STATE_CATCHING_UP {
		w.State = "catching-up"
	}
	if s.Lag != nil {
		w.Lag = new(s.GetLag().AsDuration().Seconds())
	}
	return w
}

// WatcherTable returns the columns of a table of watches and what makes the cells of a
// row, of several servers or of one.
func WatcherTable(several bool) ([]output.Column, func(Watcher) []string) {
	return table(several, watcherColumns(), Watcher.cells, func(w Watcher) string { return w.Server })
}

func watcherColumns() []output.Column {
	return []output.Column{
		{Title: "ID", Style: output.Name},
		{Title: "PEER"},
		{Title: "RESOURCE"},
		{Title: "STATE"},
		{Title: "BEHIND", Right: true},
		{Title: "EVENTS", Right: true},
		{Title: "SENT", Right: true},
		{Title: "AGE", Right: true},
		{Title: "INTEREST"},
	}
}

// cells show it in a table. A watch whose client does not read is "blocked".
func (w Watcher) cells() []string {
	state, behind := w.State, "-"
	if w.Blocked {
		state = "blocked"
	}
	switch {
	case w.nowhere():
		behind = "all"
	case w.Lag != nil:
		behind = Brief(seconds(*w.Lag))
	}
	return []string{
		w.ID, strings.TrimSpace(w.Identity + " " + w.Peer), w.Resource, state, behind, number(w.LagEvents), humanize.IBytes(uint64(w.Bytes)), Brief(time.Since(w.Since)), w.interest(),
	}
}

// interest says what of the resource it watches.
func (w Watcher) interest() string {
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
