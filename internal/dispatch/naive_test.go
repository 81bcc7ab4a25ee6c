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

// document is what values of the model tests say, with the fields of the schema.
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
func decoded(r object.Record) *object.Object {
	o := &object.Object{
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

func color(o *object.Object) string { return field(o, 0) }
func size(o *object.Object) string  { return field(o, 1) }

func field(o *object.Object, i int) string {
	if o.Opaque {
		return ""
	}
	return o.Fields[i]
}

// criterion is a selector and what it means.
type criterion struct {
	text  string
	picks func(*object.Object) bool
}

func label(o *object.Object, name string) string { return o.Labels[name] }

func has(o *object.Object, name string) bool { _, ok := o.Labels[name]; return ok }

var ofLabels = []criterion{
	{"", func(*object.Object) bool { return true }},
	{"env=prod", func(o *object.Object) bool { return label(o, "env") == "prod" }},
	{"env!=prod", func(o *object.Object) bool { return label(o, "env") != "prod" }},
	{"env in (prod,test)", func(o *object.Object) bool { return has(o, "env") }},
	{"env notin (prod,test)", func(o *object.Object) bool { return !has(o, "env") }},
	{"env,tier!=gold", func(o *object.Object) bool { return has(o, "env") && label(o, "tier") != "gold" }},
	{"!env", func(o *object.Object) bool { return !has(o, "env") }},
}

var ofFields = []criterion{
	{"", func(*object.Object) bool { return true }},
	{"color=red", func(o *object.Object) bool { return color(o) == "red" }},
	{"color==blue", func(o *object.Object) bool { return color(o) == "blue" }},
	{"color!=red", func(o *object.Object) bool { return color(o) != "red" }},
	{"color=", func(o *object.Object) bool { return color(o) == "" }},
	{"size=1", func(o *object.Object) bool { return size(o) == "1" }},
	{"color=red,size!=1", func(o *object.Object) bool { return color(o) == "red" && size(o) != "1" }},
	{"name=0", func(o *object.Object) bool { return o.Key.Name() == "0" }},
	{"name=1,color=blue", func(o *object.Object) bool { return o.Key.Name() == "1" && color(o) == "blue" }},
	{"key=c/1", func(o *object.Object) bool { return o.Key == "c/1" }},
	{"key=a/b/0,color!=blue", func(o *object.Object) bool { return o.Key == "a/b/0" && color(o) != "blue" }},
}

// past is the history of a store, kept in the plainest way there is.
type past struct {
	states  []map[object.Key]*object.Object // at each revision, beginning with 0
	changes []object.Change                 // what happened
	told    []object.Change                 // what a server can have seen of it: each gap as one step
}

func newPast(history [][]object.Record, gaps []check.Gap) *past {
	p := &past{states: []map[object.Key]*object.Object{{}}}
	for _, records := range history {
		state := maps.Clone(p.states[len(p.states)-1])
		for _, r := range records {
			delete(state, r.Key)
			if !r.Deleted {
				state[r.Key] = decoded(r)
			}
		}
		p.states = append(p.states, state)
	}
	for i := range p.states[1:] {
		to := object.Revision(i + 1)
		step := p.between(to-1, to)
		p.changes = append(p.changes, step...)
		hidden := false
		for _, g := range gaps {
			hidden = hidden || g.After < to && to < g.Until
			if g.Until == to {
				step = p.between(g.After, to)
				slices.SortStableFunc(step, func(a, b object.Change) int { return cmp.Compare(happened(a), happened(b)) })
			}
		}
		if !hidden {
			p.told = append(p.told, step...)
		}
	}
	return p
}

// happened returns when a change that is found behind a gap happened, as far as that
// is known: by the end of it where something was deleted.
func happened(c object.Change) object.Revision {
	if c.New == nil {
		return c.Revision
	}
	return c.New.ModRevision
}

// between returns the step from one state to another, in order of keys.
func (p *past) between(from, to object.Revision) []object.Change {
	before, after := p.states[from], p.states[to]
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var all []object.Change
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if before[key] != after[key] {
			all = append(all, object.Change{Revision: to, Key: key, Old: before[key], New: after[key]})
		}
	}
	return all
}

// seen returns what a watcher sees of what a server saw between two revisions: every
// event.
func (p *past) seen(h *check.History, after, through object.Revision) []check.Event {
	var all []check.Event
	for _, c := range p.told {
		if c.Revision <= after || c.Revision > through {
			continue
		}
		before, now := p.inView(h, c.Old), p.inView(h, c.New)
		var e check.Event
		switch {
		case !before && !now:
			continue
		case now:
			e.Type, e.Revision, e.Object = object.Added, c.New.ModRevision, shown(h, c.New)
		default:
			e.Type, e.Revision, e.Object = object.Deleted, c.Revision, shown(h, c.Old)
			if c.New != nil {
				e.Revision = c.New.ModRevision
			}
		}
		if before && now {
			e.Type = object.Modified
		}
		if before && h.Previous {
			e.Previous = new(shown(h, c.Old))
		}
		all = append(all, e)
	}
	return all
}

func (p *past) inView(h *check.History, o *object.Object) bool {
	return o != nil && h.Scope.Contains(o.Key) && h.Picks(o)
}

// shown returns an object as a watcher gets it.
func shown(h *check.History, o *object.Object) object.Object {
	s := *o
	s.Fields = nil
	if h.OmitValues {
		s.Value = nil
	}
	return s
}

// state returns what is in view at a revision.
func (p *past) state(h *check.History, at object.Revision) map[object.Key]object.Object {
	all := map[object.Key]object.Object{}
	for key, o := range p.states[at] {
		if p.inView(h, o) {
			all[key] = shown(h, o)
		}
	}
	return all
}

// pair is two events of one key, the one waiting and the one that comes.
type pair struct{ waiting, comes object.EventType }

// table says what two events of one key are together. What is not in it is nothing.
var table = map[pair]object.EventType{
	{object.Added, object.Modified}:    object.Added,
	{object.Modified, object.Modified}: object.Modified,
	{object.Modified, object.Deleted}:  object.Deleted,
	{object.Deleted, object.Added}:     object.Modified,
}

// merge merges events by the table, one after the other, in order of what is left.
// A deletion shows the object that the watcher had. Who resumes is told of the
// deletion of what came and went, too. It calls met with each pair.
func merge(events []check.Event, had map[object.Key]object.Object, resumes bool, met func(pair)) []check.Event {
	waiting, passed := map[object.Key]check.Event{}, map[object.Key]check.Event{}
	for _, e := range events {
		before, ok := waiting[e.Object.Key]
		if !ok {
			waiting[e.Object.Key] = e
			continue
		}
		p := pair{before.Type, e.Type}
		met(p)
		e.Type, ok = table[p]
		if !ok {
			delete(waiting, e.Object.Key)
			e.Type = object.Deleted
			passed[e.Object.Key] = e
			continue
		}
		e.Previous = before.Previous
		waiting[e.Object.Key] = e
	}
	for key, e := range waiting {
		if e.Type == object.Deleted {
			e.Object = had[key]
			waiting[key] = e
		}
	}
	for key, e := range passed {
		if _, ok := waiting[key]; !ok && resumes {
			waiting[key] = e
		}
	}
	return slices.SortedFunc(maps.Values(waiting), func(a, b check.Event) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Object.Key, b.Object.Key))
	})
}

// conforms applies what a watcher received as a client does, and compares each step
// with the past: the events of each piece between two positions with those that are
// due, and the state that they lead to with the state at its end.
func (p *past) conforms(h *check.History, met func(pair)) error {
	var state map[object.Key]object.Object
	for i, s := range h.Streams {
		var at object.Revision // the watcher is here
		var mode object.CatchUp
		var waiting []check.Event
		if s.Begin == check.After {
			at = s.Position.Revision
		}
		for j, m := range s.Messages {
			fail := func(format string, args ...any) error {
				return fmt.Errorf("%s: stream %d, message %d: %s", h.Watcher, i, j, fmt.Sprintf(format, args...))
			}
			if s.Begin == check.FromNow && j == 0 {
				at, state = m.Position.Revision, p.state(h, m.Position.Revision)
			}
			switch m.Kind {
			case object.CatchUpBegin:
				mode, waiting = m.CatchUp, nil
				if mode == object.Reset {
					state = map[object.Key]object.Object{}
				}
			case object.Synced:
				at = max(at, m.Position.Revision)
			case object.Draining:
				waiting = nil // the parts of what is not whole are told again
			}
			waiting = append(waiting, m.Events...)
			whole := !m.Partial
			if mode == object.Reset || mode == object.Delta {
				whole = m.Kind == object.Synced
			}
			if !whole {
				continue
			}
			if mode != object.Reset && mode != object.Delta {
				due := p.seen(h, at, m.Position.Revision)
				if h.Latest {
					due = merge(due, state, mode == object.Replay, met)
				}
				if problem := p.compare(h, due, waiting, m.Position.Revision); problem != "" {
					return fail("after %d %s", at, problem)
				}
			}
			for _, e := range waiting {
				if e.Type == object.Deleted {
					delete(state, e.Object.Key)
				} else {
					state[e.Object.Key] = e.Object
				}
			}
			at, waiting = m.Position.Revision, nil
			if m.Kind == object.Synced {
				mode = object.NoCatchUp
			}
			if want := p.state(h, at); !sameState(want, state) {
				return fail("the state at %d is %v, want %v", at, state, want)
			}
		}
	}
	return nil
}

// compare says how events differ from those that are due.
func (p *past) compare(h *check.History, due, got []check.Event, through object.Revision) string {
	due, got = slices.Clone(due), slices.Clone(got)
	if h.Latest {
		// An object that has left the view may have changed out of sight before
		// the rest of what waits was merged.
		for i, e := range got {
			d := slices.IndexFunc(due, func(d check.Event) bool { return d.Object.Key == e.Object.Key })
			if d >= 0 && e.Type == object.Deleted && e.Revision <= through && e.Revision > due[d].Revision {
				got[i].Revision = due[d].Revision
			}
		}
		byKey := func(a, b check.Event) int { return cmp.Compare(a.Object.Key, b.Object.Key) }
		slices.SortStableFunc(due, byKey)
		slices.SortStableFunc(got, byKey)
	}
	for i := range max(len(due), len(got)) {
		switch {
		case i == len(got):
			return fmt.Sprintf("there is no %v", &due[i])
		case i == len(due):
			return fmt.Sprintf("there is %v", &got[i])
		case !sameEvent(&due[i], &got[i]):
			return fmt.Sprintf("there is %v %+v, want %v %+v", &got[i], got[i], &due[i], due[i])
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

func sameObject(a, b *object.Object) bool {
	x, y := *a, *b
	same := maps.Equal(x.Labels, y.Labels)
	x.Labels, y.Labels = nil, nil
	return same && reflect.DeepEqual(x, y)
}

func sameState(a, b map[object.Key]object.Object) bool {
	return maps.EqualFunc(a, b, func(x, y object.Object) bool { return sameObject(&x, &y) })
}
