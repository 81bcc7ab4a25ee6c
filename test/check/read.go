package check

import (
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Read is the answer to a List with its pages, or to a Get, which is a List of one key.
type Read struct {
	Reader string // its name, for messages

	// The requested objects, as in [History].
	Scope    object.Scope
	Picks    func(*object.Decoded) bool
	Selects  string
	StartKey object.Key // only this key and those after it. Empty: all

	// NotBefore is the oldest revision allowed for the answer: the requested one, or one
	// that was acknowledged to a writer before a linearizable read. 0: any.
	NotBefore object.Revision

	// Exact is the required revision of the answer. 0: any.
	Exact object.Revision

	// Uncounted allows the server to leave out the number of remaining objects, because
	// it cannot count them.
	Uncounted bool

	Pages []Page

	// Unfinished says that there were more pages, which the reader did not request or
	// could not get.
	Unfinished bool
}

// Page is one page of a List.
type Page struct {
	Position  object.Position
	Objects   []object.Decoded
	Size      int    // the requested page size. 0: any
	Remaining *int64 // the number of objects after this page, as the server says
}

// Consistent checks that a read is exactly the state of one revision, in order of keys. The
// revision must not be older than a write that was acknowledged before. No page may exceed
// the requested size, and the number of remaining objects must be right.
func Consistent(r *Read, t *Truth) error {
	broken := func(format string, args ...any) error {
		return fmt.Errorf("%s broke consistent: %s", r.Reader, fmt.Sprintf(format, args...))
	}
	if len(r.Pages) == 0 {
		return nil
	}
	at := r.Pages[0].Position
	switch {
	case at.Revision > t.Through:
		return fmt.Errorf("cannot check: %s read at revision %d, the truth ends at %d", r.Reader, at.Revision, t.Through)
	case at.Epoch == "":
		return broken("no epoch")
	case at.Revision < r.NotBefore:
		return broken("the state is of revision %d, but has to be at least of %d", at.Revision, r.NotBefore)
	case r.Exact != 0 && at.Revision != r.Exact:
		return broken("the state is of revision %d instead of the %d that was asked for", at.Revision, r.Exact)
	}

	view := History{Scope: r.Scope, Picks: func(o *object.Decoded) bool {
		return o.Key >= r.StartKey && (r.Picks == nil || r.Picks(o))
	}}
	want := view.state(t, at.Revision)
	read := 0
	var got []*object.Decoded
	for i := range r.Pages {
		p := &r.Pages[i]
		if p.Position != at {
			return broken("page %d is of %v, but page 0 is of %v", i, p.Position, at)
		}
		if p.Size > 0 && len(p.Objects) > p.Size {
			return broken("page %d has %d objects, at most %d were asked for", i, len(p.Objects), p.Size)
		}
		for j := range p.Objects {
			o := &p.Objects[j]
			if n := len(got); n > 0 && got[n-1].Key >= o.Key {
				return broken("page %d: %q comes after %q", i, o.Key, got[n-1].Key)
			}
			got = append(got, o)
		}
		read += len(p.Objects)
		follows := r.Unfinished || i+1 < len(r.Pages)
		switch {
		case follows && len(p.Objects) == 0:
			return broken("page %d is empty, but not the last", i)
		case r.Picks != nil && p.Remaining != nil:
			return broken("page %d says what remains, although there is a selector", i)
		case p.Remaining != nil && *p.Remaining != int64(len(want)-read):
			return broken("page %d says that %d objects remain, it is %d", i, *p.Remaining, len(want)-read)
		case p.Remaining == nil && r.Picks == nil && r.Exact == 0 && i == 0 && !r.Uncounted:
			return broken("page %d does not say how many objects remain", i)
		}
	}
	if r.Unfinished {
		if len(got) > len(want) {
			return broken("%d objects at revision %d, there are only %d", len(got), at.Revision, len(want))
		}
		want = want[:len(got)]
	}
	if diff := differences(want, got); diff != "" {
		return broken("not the state at revision %d: %s", at.Revision, diff)
	}
	return nil
}
