package check

import (
	"errors"
	"fmt"
	"slices"
)

// Subscription is what the client of one Subscribe stream asked for and received. All its watches
// are of the resource of the truth.
type Subscription struct {
	Subscriber string     // its name, for messages
	Starts     []Start    // in order
	Responses  []Response // in order

	// Over says that the server has ended the stream as it should, after the last watch. So each
	// start has an answer. It is false if the client has left, or if the connection was lost.
	Over bool
}

// Start is a request that starts a watch.
type Start struct {
	ID       uint64
	Interest *History // what the watch asked for; its Streams are not used
	Asked    Stream   // how it began; its Messages are not used
	Stopped  bool     // the client has sent a stop

	// Late says that the watch may get events later than other watches of the stream: it has a
	// batch delay, or its resource has no cache.
	Late bool
}

// Response is a response of a Subscribe stream.
type Response struct {
	Entries []Entry
	More    bool
}

// Entry is an entry of a response.
type Entry struct {
	IDs     []uint64
	Message *Message // nil: see Refused and Ended

	Refused, Ended bool
	Status         string // of the refusal or the end, see Stream.Status
}

// These statuses end a watch that has got no message: the caller has lost its right.
const (
	StatusPermissionDenied = "PERMISSION_DENIED"
	StatusUnauthenticated  = "UNAUTHENTICATED"
)

// StatusIDInUse refuses a start whose id another watch has.
const StatusIDInUse = "WATCH_ID_IN_USE"

// SubscriptionGuarantee is a guarantee of a Subscribe stream and the function that checks it.
type SubscriptionGuarantee struct {
	Name  string
	Check func(*Subscription, *Truth) error
}

// SubscriptionGuarantees lists what a Subscribe stream guarantees beside the guarantees of its
// watches:
//
//	answered  each start gets a message or refused, unless the client or the server has ended the
//	          watch before; it gets exactly one refused or ended, and nothing comes for an id that
//	          no watch has
//	whole     the events of one revision for all live watches come in one response, or, if they do
//	          not fit, in consecutive ones
//	compact   a response does not exceed the size limit, except with a single event
var SubscriptionGuarantees = []SubscriptionGuarantee{
	{"answered", Answered},
	{"whole", Whole},
	{"compact", Compact},
}

// ValidateSubscription checks a stream against every guarantee of [SubscriptionGuarantees], and
// each of its watches against every guarantee of a watch. So it finds a message that comes for the
// old or the new watch with an id, but belongs to the other one.
func ValidateSubscription(s *Subscription, t *Truth) error {
	var broken []error
	for _, g := range SubscriptionGuarantees {
		if err := g.Check(s, t); err != nil {
			broken = append(broken, err)
		}
	}
	for _, h := range s.watches() {
		if err := Validate(h, t); err != nil {
			broken = append(broken, err)
		}
	}
	return errors.Join(broken...)
}

// watches returns the history of each watch.
func (s *Subscription) watches() []*History {
	all := make([]*History, len(s.Starts))
	for i := range s.Starts {
		start := &s.Starts[i]
		h := *start.Interest
		h.Watcher = fmt.Sprintf("%s, start %d (id %d)", s.Subscriber, i, start.ID)
		h.Streams = []Stream{start.Asked}
		h.Streams[0].Messages = nil
		all[i] = &h
	}
	s.walk(func(_ entryPlace, start int, e *Entry) {
		if start < 0 {
			return
		}
		stream := &all[start].Streams[0]
		switch {
		case e.Message != nil:
			stream.Messages = append(stream.Messages, *e.Message)
		case !s.Starts[start].Stopped && stream.Exact == 0: // any watch may end if it has asked for one revision
			stream.Status = e.Status
		}
	})
	return all
}

// walk calls a function for each entry and each of its ids, with the index of the start that it
// belongs to, or -1 if there is none.
func (s *Subscription) walk(do func(at entryPlace, start int, e *Entry)) {
	waiting := newWaiting(s)
	for i := range s.Responses {
		for j := range s.Responses[i].Entries {
			e := &s.Responses[i].Entries[j]
			for _, id := range e.IDs {
				do(entryPlace{i, j}, waiting.startOf(id, e), e)
			}
		}
	}
}

// entryPlace names an entry of a stream.
type entryPlace struct{ response, entry int }

func (p entryPlace) String() string { return fmt.Sprintf("response %d, entry %d", p.response, p.entry) }

// waiting has the indexes of the starts without an answer, by id.
type waiting map[uint64][]int

func newWaiting(s *Subscription) waiting {
	w := waiting{}
	for i := range s.Starts {
		w[s.Starts[i].ID] = append(w[s.Starts[i].ID], i)
	}
	return w
}

// startOf returns the index of the start that an entry belongs to, or -1 if there is none. It is
// the oldest start with the id that has no answer. A refusal because the id is in use belongs to
// the start after that.
func (w waiting) startOf(id uint64, e *Entry) int {
	n := 0
	if e.Refused && e.Status == StatusIDInUse {
		n = 1
	}
	starts := w[id]
	if n >= len(starts) {
		return -1
	}
	start := starts[n]
	if e.Message == nil {
		w[id] = slices.Delete(starts, n, n+1)
	}
	return start
}

// Answered checks that each start gets exactly one refused or ended, that nothing comes for an id
// that no watch has, that no watch gets a message before it is refused, and that no watch fails
// without a message instead of being refused.
func Answered(s *Subscription, _ *Truth) error {
	v := violations{history: &History{Watcher: s.Subscriber}, guarantee: "answered"}
	answered, spoke := make([]bool, len(s.Starts)), make([]bool, len(s.Starts))
	s.walk(func(at entryPlace, start int, e *Entry) {
		id := func() string { return fmt.Sprintf("start %d (id %d)", start, s.Starts[start].ID) }
		switch {
		case start < 0:
			v.add(at, "no watch has one of the ids %d", e.IDs)
		case e.Message != nil:
			spoke[start] = true
		case e.Refused == e.Ended:
			v.add(at, "%s has neither a message nor an answer", id())
		case e.Refused && spoke[start]:
			v.add(at, "%s is refused after it has begun", id())
		case e.Ended && !spoke[start] && !s.Starts[start].Stopped && e.Status != StatusPermissionDenied && e.Status != StatusUnauthenticated:
			v.add(at, "%s has ended with %s before it has begun", id(), e.Status)
		default:
			answered[start] = true
		}
	})
	for i, r := range s.Responses {
		for j := range r.Entries {
			ids := slices.Sorted(slices.Values(r.Entries[j].IDs))
			if n := len(ids); n == 0 || len(slices.Compact(ids)) < n {
				v.add(entryPlace{i, j}, "the ids are %d", r.Entries[j].IDs)
			}
		}
	}
	if none := slices.Index(answered, false); s.Over && none >= 0 {
		v.add(entryPlace{len(s.Responses), 0}, "the stream is over, and start %d (id %d) has no answer", none, s.Starts[none].ID)
	}
	return v.err()
}

// Compact checks that a response does not exceed the size limit, unless it has a single event.
func Compact(s *Subscription, t *Truth) error {
	v := violations{history: &History{Watcher: s.Subscriber}, guarantee: "compact"}
	for i := range s.Responses {
		size, events := 0, 0
		for j := range s.Responses[i].Entries {
			if m := s.Responses[i].Entries[j].Message; m != nil {
				size, events = size+m.Bytes, events+len(m.Events)
			}
		}
		if t.MessageBytes > 0 && size > t.MessageBytes && events > 1 {
			v.add(entryPlace{i, 0}, "a response of %d events and %d bytes, the limit is %d", events, size, t.MessageBytes)
		}
	}
	return v.err()
}
