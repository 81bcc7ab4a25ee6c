package check_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// write is one revision of a truth written by hand: the keys that it puts and, with a minus
// sign, the keys that it deletes.
type write struct {
	revision object.Revision
	keys     []object.Key
}

func at(revision object.Revision, keys ...object.Key) write { return write{revision, keys} }

// changesOf returns the changes with the revisions and versions that etcd would assign.
func changesOf(writes ...write) []check.Change {
	var changes []check.Change
	state := map[object.Key]*object.Decoded{}
	for _, w := range writes {
		for _, key := range w.keys {
			c := check.Change{Revision: w.revision, Key: key}
			if key[0] == '-' {
				c.Key = key[1:]
				delete(state, c.Key)
			} else {
				o := &object.Decoded{
					Key:            key,
					Value:          fmt.Appendf(nil, "%s at %d", key, w.revision),
					ContentType:    object.ContentText,
					Labels:         map[string]string{"revision": fmt.Sprint(w.revision)},
					CreateRevision: w.revision,
					ModRevision:    w.revision,
					Version:        1,
				}
				if old := state[key]; old != nil {
					o.CreateRevision, o.Version = old.CreateRevision, old.Version+1
				}
				state[key], c.New = o, o
			}
			changes = append(changes, c)
		}
	}
	return changes
}

// happened is the truth of most tests here. It has two transactions (4 and 7), a key that is
// deleted and created again (b), one that is deleted (c), and one in a folder (team/x).
//
//	revision  2  3  4  5  6  7  8    9
//	a         +     ~        ~       ~
//	b            +     -  +
//	c               +        -
//	team/x                      +
var happened = []write{
	at(2, "a"), at(3, "b"), at(4, "a", "c"), at(5, "-b"), at(6, "b"), at(7, "a", "-c"), at(8, "team/x"), at(9, "a"),
}

const end = 9

func newTruth(t *testing.T) *check.Truth {
	t.Helper()
	truth, err := check.NewTruth(changesOf(happened...), end)
	if err != nil {
		t.Fatal(err)
	}
	truth.Window = 4
	return truth
}

// events returns the events of a correct server for the given changes of happened.
func events(changes ...change) []check.Event {
	var all []check.Event
	last := map[object.Key]object.Decoded{}
	existed := map[change]object.EventType{}
	became := map[change]object.Decoded{}
	for _, c := range changesOf(happened...) {
		old, before := last[c.Key]
		name := change{c.Key, c.Revision}
		switch {
		case c.New == nil:
			existed[name], became[name] = object.Deleted, old
			delete(last, c.Key)
			continue
		case before:
			existed[name] = object.Modified
		default:
			existed[name] = object.Added
		}
		became[name], last[c.Key] = *c.New, *c.New
	}
	for _, c := range changes {
		o, ok := became[c]
		if !ok {
			panic(fmt.Sprintf("%v never happened", c))
		}
		all = append(all, check.Event{Type: existed[c], Revision: c.revision, Object: o})
	}
	return all
}

type change struct {
	key      object.Key
	revision object.Revision
}

// objects returns the events of a snapshot with the given versions of keys.
func objects(versions ...change) []check.Event {
	all := events(versions...)
	for i := range all {
		all[i].Type = object.Added
	}
	return all
}

const epoch object.Epoch = "e1"

func pos(revision object.Revision) object.Position {
	return object.Position{Epoch: epoch, Revision: revision}
}

func message(kind object.MessageKind, revision object.Revision, events []check.Event) check.Message {
	return check.Message{Header: object.Header{Kind: kind, Position: pos(revision)}, Events: events}
}

func begin(kind object.CatchUpKind, revision object.Revision) check.Message {
	m := message(object.CatchUpBegin, revision, nil)
	m.CatchUp = kind
	return m
}

func part(revision object.Revision, events []check.Event) check.Message {
	return message(object.CatchUpPart, revision, events)
}

func synced(revision object.Revision) check.Message { return message(object.Synced, revision, nil) }

func live(revision object.Revision, events []check.Event) check.Message {
	return message(object.Live, revision, events)
}

func bookmark(revision object.Revision) check.Message { return message(object.Bookmark, revision, nil) }

func draining(revision object.Revision) check.Message { return message(object.Draining, revision, nil) }

func resumeAtOnce(m check.Message) check.Message {
	m.ResumeAtOnce = true
	return m
}

func partial(m check.Message) check.Message {
	m.Partial = true
	return m
}

func fromNothing(messages ...check.Message) check.Stream {
	return check.Stream{Begin: check.FromNothing, Messages: messages}
}

func fromNow(messages ...check.Message) check.Stream {
	return check.Stream{Begin: check.FromNow, Messages: messages}
}

func after(revision object.Revision, messages ...check.Message) check.Stream {
	return check.Stream{Begin: check.After, Position: pos(revision), Messages: messages}
}

func notBefore(revision object.Revision, s check.Stream) check.Stream {
	s.NotBefore = revision
	return s
}

func watched(scope object.Scope, streams ...check.Stream) *check.History {
	return &check.History{Watcher: "watcher", Scope: scope, Streams: streams}
}

// start returns a correct stream from nothing, synced at revision 3, with further messages.
func start(messages ...check.Message) check.Stream {
	return fromNothing(append([]check.Message{
		begin(object.Reset, 0), part(0, objects(change{"a", 2}, change{"b", 3})), synced(3),
	}, messages...)...)
}

// changed returns the event of a change after tamper has modified it.
func changed(c change, tamper func(*check.Event)) []check.Event {
	all := events(c)
	tamper(&all[0])
	return all
}

// as returns the event of a change with another type.
func as(kind object.EventType, c change) []check.Event {
	return changed(c, func(e *check.Event) { e.Type = kind })
}

// gone returns the event of a DELTA for a key that the watcher no longer sees.
func gone(c change) []check.Event {
	return []check.Event{{Type: object.Deleted, Revision: c.revision, Object: object.Decoded{Key: c.key}}}
}

// before returns the event with a previous object.
func before(e []check.Event, old change) []check.Event {
	e = slices.Clone(e)
	e[0].Previous = new(events(old)[0].Object)
	return e
}

// join returns the events of all arguments.
func join(all ...[]check.Event) []check.Event { return slices.Concat(all...) }

// with returns the history after ask has modified the request of the watcher.
func with(h *check.History, ask func(*check.History)) *check.History {
	ask(h)
	return h
}

// all returns the history of a watcher of the whole resource.
func all(streams ...check.Stream) *check.History { return watched(object.Scope{}, streams...) }
