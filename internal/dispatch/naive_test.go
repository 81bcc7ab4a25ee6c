package dispatch_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// document is the value of an object in the model tests. It has the fields of the schema.
type document struct {
	Metadata struct {
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Color string `json:"color,omitempty"`
	Spec  struct {
		Size string `json:"size,omitempty"`
	} `json:"spec"`
	Padding string `json:"padding,omitempty"`
}

// decoded returns the object of a record, decoded by the standard library.
func decoded(r object.Record) *object.Decoded {
	o := &object.Decoded{
		Key: r.Key, Value: r.Value,
		CreateRevision: r.CreateRevision, ModRevision: r.ModRevision, Version: r.Version,
	}
	var d document
	if err := json.Unmarshal(r.Value, &d); err != nil {
		o.Opaque, o.ContentType = true, object.ContentText
		return o
	}
	o.ContentType, o.Labels, o.Fields = object.ContentJSON, d.Metadata.Labels, []string{d.Color, d.Spec.Size}
	return o
}

func color(o *object.Decoded) string { return field(o, 0) }
func size(o *object.Decoded) string  { return field(o, 1) }

func field(o *object.Decoded, i int) string {
	if o.Opaque {
		return ""
	}
	return o.Fields[i]
}

// criterion is a selector with a plain implementation of it.
type criterion struct {
	text  string
	picks func(*object.Decoded) bool
}

func label(o *object.Decoded, name string) string { return o.Labels[name] }

func has(o *object.Decoded, name string) bool { _, ok := o.Labels[name]; return ok }

var labelCriteria = []criterion{
	{"", func(*object.Decoded) bool { return true }},
	{"env=prod", func(o *object.Decoded) bool { return label(o, "env") == "prod" }},
	{"env!=prod", func(o *object.Decoded) bool { return label(o, "env") != "prod" }},
	{"env in (prod,test)", func(o *object.Decoded) bool { return has(o, "env") }},
	{"env notin (prod,test)", func(o *object.Decoded) bool { return !has(o, "env") }},
	{"env,tier!=gold", func(o *object.Decoded) bool { return has(o, "env") && label(o, "tier") != "gold" }},
	{"!env", func(o *object.Decoded) bool { return !has(o, "env") }},
}

var fieldCriteria = []criterion{
	{"", func(*object.Decoded) bool { return true }},
	{"color=red", func(o *object.Decoded) bool { return color(o) == "red" }},
	{"color==blue", func(o *object.Decoded) bool { return color(o) == "blue" }},
	{"color!=red", func(o *object.Decoded) bool { return color(o) != "red" }},
	{"color=", func(o *object.Decoded) bool { return color(o) == "" }},
	{"size=1", func(o *object.Decoded) bool { return size(o) == "1" }},
	{"color=red,size!=1", func(o *object.Decoded) bool { return color(o) == "red" && size(o) != "1" }},
	{"name=0", func(o *object.Decoded) bool { return o.Key.Name() == "0" }},
	{"name=1,color=blue", func(o *object.Decoded) bool { return o.Key.Name() == "1" && color(o) == "blue" }},
	{"key=c/1", func(o *object.Decoded) bool { return o.Key == "c/1" }},
	{"key=a/b/0,color!=blue", func(o *object.Decoded) bool { return o.Key == "a/b/0" && color(o) != "blue" }},
}

// naiveHistory is the history of a store in the simplest form: a copy of the state at each
// revision.
type naiveHistory struct {
	states  []map[object.Key]*object.Decoded // at each revision, beginning with 0
	changes []check.Change
}

func newNaiveHistory(history [][]object.Record) *naiveHistory {
	n := &naiveHistory{states: []map[object.Key]*object.Decoded{{}}}
	for _, records := range history {
		state := maps.Clone(n.states[len(n.states)-1])
		for _, r := range records {
			delete(state, r.Key)
			if !r.Deleted {
				state[r.Key] = decoded(r)
			}
		}
		n.states = append(n.states, state)
	}
	for i := range n.states[1:] {
		to := object.Revision(i + 1)
		n.changes = append(n.changes, n.between(to-1, to)...)
	}
	return n
}

// between returns the changes that lead from one state to another, in order of keys.
func (n *naiveHistory) between(from, to object.Revision) []check.Change {
	before, after := n.states[from], n.states[to]
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var all []check.Change
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if before[key] != after[key] {
			all = append(all, check.Change{Revision: to, Key: key, Old: before[key], New: after[key]})
		}
	}
	return all
}

// events returns all events of a watcher between two revisions.
func (n *naiveHistory) events(h *check.History, after, through object.Revision) []check.Event {
	var all []check.Event
	first, _ := slices.BinarySearchFunc(n.changes, after+1, func(c check.Change, r object.Revision) int { return cmp.Compare(c.Revision, r) })
	for _, c := range n.changes[first:] {
		if c.Revision > through {
			break
		}
		before, now := n.inView(h, c.Old), n.inView(h, c.New)
		e := check.Event{Revision: c.Revision}
		switch {
		case !before && !now:
			continue
		case before && now:
			e.Type, e.Object = object.Modified, served(h, c.New)
		case now:
			e.Type, e.Object = object.Added, served(h, c.New)
		default:
			e.Type, e.Object = object.Deleted, served(h, c.Old)
		}
		if before && h.Previous {
			e.Previous = new(served(h, c.Old))
		}
		all = append(all, e)
	}
	return all
}

func (n *naiveHistory) inView(h *check.History, o *object.Decoded) bool {
	return o != nil && h.Scope.Contains(o.Key) && h.Picks(o)
}

// served returns an object as a watcher receives it.
func served(h *check.History, o *object.Decoded) object.Decoded {
	s := *o
	s.Fields = nil
	if h.OmitValues {
		s.Value = nil
	}
	return s
}

// state returns the objects in view at a revision.
func (n *naiveHistory) state(h *check.History, at object.Revision) map[object.Key]object.Decoded {
	all := map[object.Key]object.Decoded{}
	for key, o := range n.states[at] {
		if n.inView(h, o) {
			all[key] = served(h, o)
		}
	}
	return all
}

// pair has the types of two events of one key: the pending one and the next one.
type pair struct{ pending, next object.EventType }

// mergeTable has the type of the merged event for each pair. Other pairs cancel out.
var mergeTable = map[pair]object.EventType{
	{object.Added, object.Modified}:    object.Added,
	{object.Modified, object.Modified}: object.Modified,
	{object.Modified, object.Deleted}:  object.Deleted,
	{object.Deleted, object.Added}:     object.Modified,
}

// merge merges events one after another by the table, and returns the remaining ones in order.
// A deletion has the object that the watcher had before. A resumed watcher also gets a
// deletion for each object that was added and deleted again. merge calls onPair with each
// pair.
func merge(events []check.Event, had map[object.Key]object.Decoded, resumed bool, onPair func(pair)) []check.Event {
	pending, cancelled := map[object.Key]check.Event{}, map[object.Key]check.Event{}
	for _, e := range events {
		before, ok := pending[e.Object.Key]
		if !ok {
			pending[e.Object.Key] = e
			continue
		}
		p := pair{before.Type, e.Type}
		onPair(p)
		e.Type, ok = mergeTable[p]
		if !ok {
			delete(pending, e.Object.Key)
			e.Type = object.Deleted
			cancelled[e.Object.Key] = e
			continue
		}
		e.Previous = before.Previous
		pending[e.Object.Key] = e
	}
	for key, e := range pending {
		if e.Type == object.Deleted {
			e.Object = had[key]
			pending[key] = e
		}
	}
	for key, e := range cancelled {
		if _, ok := pending[key]; !ok && resumed {
			pending[key] = e
		}
	}
	return slices.SortedFunc(maps.Values(pending), func(a, b check.Event) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Object.Key, b.Object.Key))
	})
}

// validate applies the messages of a watcher as a client does. At each position it compares
// the events since the last position, and the resulting state, with the history.
func (n *naiveHistory) validate(h *check.History, onPair func(pair)) error {
	var state map[object.Key]object.Decoded
	for i, s := range h.Streams {
		var at object.Revision // the position of the watcher
		var mode object.CatchUpKind
		var pending []check.Event
		if s.Begin == check.After {
			at = s.Position.Revision
		} else {
			state = nil
		}
		for j, m := range s.Messages {
			fail := func(format string, args ...any) error {
				return fmt.Errorf("%s: stream %d, message %d: %s", h.Watcher, i, j, fmt.Sprintf(format, args...))
			}
			if s.Begin == check.FromNow && j == 0 {
				at, state = m.Position.Revision, n.state(h, m.Position.Revision)
			}
			resumed := mode == object.Replay // a catch-up may begin after events that came before
			switch m.Kind {
			case object.CatchUpBegin:
				mode, pending = m.CatchUp, nil
				if mode == object.Reset {
					state = map[object.Key]object.Decoded{}
				}
			case object.Synced:
				at = max(at, m.Position.Revision)
			case object.Draining:
				pending = nil // an incomplete revision is sent again from its first part
			}
			pending = append(pending, m.Events...)
			complete := !m.Partial
			if mode == object.Reset || mode == object.Delta {
				complete = m.Kind == object.Synced
			}
			if !complete {
				continue
			}
			if mode != object.Reset && mode != object.Delta {
				want := n.events(h, at, m.Position.Revision)
				if h.Latest {
					want = merge(want, state, resumed, onPair)
				}
				if problem := n.compare(h, pending, want); problem != "" {
					return fail("after revision %d: %s", at, problem)
				}
			}
			for _, e := range pending {
				if e.Type == object.Deleted {
					delete(state, e.Object.Key)
				} else {
					state[e.Object.Key] = e.Object
				}
			}
			at, pending = m.Position.Revision, nil
			if m.Kind == object.Synced {
				mode = object.NoCatchUp
			}
			if want := n.state(h, at); !sameState(want, state) {
				return fail("got state %v at revision %d, want %v", state, at, want)
			}
		}
	}
	return nil
}

// compare describes the first difference between events, or returns "".
func (n *naiveHistory) compare(h *check.History, got, want []check.Event) string {
	got, want = slices.Clone(got), slices.Clone(want)
	if h.Latest {
		byKey := func(a, b check.Event) int { return cmp.Compare(a.Object.Key, b.Object.Key) }
		slices.SortStableFunc(want, byKey)
		slices.SortStableFunc(got, byKey)
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i == len(got):
			return fmt.Sprintf("got no event, want %v", &want[i])
		case i == len(want):
			return fmt.Sprintf("got %v, want no event", &got[i])
		case !sameEvent(&got[i], &want[i]):
			return fmt.Sprintf("got %v %+v, want %v %+v", &got[i], got[i], &want[i], want[i])
		}
	}
	return ""
}

func sameEvent(a, b *check.Event) bool {
	if a.Type != b.Type || !sameObject(&a.Object, &b.Object) || (a.Previous == nil) != (b.Previous == nil) {
		return false
	}
	return a.Previous == nil || sameObject(a.Previous, b.Previous)
}

func sameObject(a, b *object.Decoded) bool {
	x, y := *a, *b
	same := maps.Equal(x.Labels, y.Labels)
	x.Labels, y.Labels = nil, nil
	return same && reflect.DeepEqual(x, y)
}

func sameState(a, b map[object.Key]object.Decoded) bool {
	return maps.EqualFunc(a, b, func(x, y object.Decoded) bool { return sameObject(&x, &y) })
}
