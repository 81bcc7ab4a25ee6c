package check_test

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// page is a page at revision 6 with the given versions of objects.
func page(versions ...change) check.Page {
	p := check.Page{Position: pos(6)}
	for _, e := range objects(versions...) {
		p.Objects = append(p.Objects, e.Object)
	}
	return p
}

func remaining(n int64, p check.Page) check.Page {
	p.Remaining = &n
	return p
}

func sized(n int, p check.Page) check.Page {
	p.Size = n
	return p
}

func TestCorrectReadsPass(t *testing.T) {
	var evens check.History
	even(&evens)
	a, b, c := change{"a", 4}, change{"b", 6}, change{"c", 4}
	reads := map[string]*check.Read{
		"nothing":       {},
		"one page":      {Pages: []check.Page{remaining(0, page(a, b, c))}, NotBefore: 6},
		"pages":         {Pages: []check.Page{remaining(1, sized(2, page(a, b))), remaining(0, sized(2, page(c)))}},
		"unfinished":    {Pages: []check.Page{remaining(2, sized(1, page(a)))}, Unfinished: true},
		"selector":      {Pages: []check.Page{sized(2, page(a, b)), sized(2, page(c))}, Picks: evens.Picks},
		"from a key":    {Pages: []check.Page{remaining(0, page(b, c))}, StartKey: "aa"},
		"exactly":       {Pages: []check.Page{page(a, b, c)}, Exact: 6},
		"uncounted":     {Pages: []check.Page{page(a, b, c)}, Uncounted: true},
		"one key":       {Pages: []check.Page{remaining(0, page(c))}, Scope: object.ExactKey("c")},
		"an absent key": {Pages: []check.Page{remaining(0, page())}, Scope: object.ExactKey("z")},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			if err := check.Consistent(read, newTruth(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBrokenReadsAreFound(t *testing.T) {
	a, b, c := change{"a", 4}, change{"b", 6}, change{"c", 4}
	whole := remaining(0, page(a, b, c))
	another := remaining(0, page(c))
	another.Position = pos(7)
	without := whole
	without.Position.Epoch = ""
	beyond := whole
	beyond.Position = pos(10)
	picks := func(*object.Decoded) bool { return true }
	tests := []struct {
		name string
		read check.Read
		says string
	}{
		{"too old", check.Read{Pages: []check.Page{whole}, NotBefore: 7}, "the state is of revision 6, but has to be at least of 7"},
		{"another revision", check.Read{Pages: []check.Page{whole}, Exact: 5}, "revision 6 instead of the 5 that was asked for"},
		{"no epoch", check.Read{Pages: []check.Page{without}}, "no epoch"},
		{"pages of two revisions", check.Read{Pages: []check.Page{remaining(1, page(a, b)), another}}, "page 1 is of e1/7, but page 0 is of e1/6"},
		{"page is too large", check.Read{Pages: []check.Page{sized(2, whole)}}, "page 0 has 3 objects, at most 2 were asked for"},
		{"out of order", check.Read{Pages: []check.Page{remaining(0, page(b, a, c))}}, `page 0: "a" comes after "b"`},
		{"object twice", check.Read{Pages: []check.Page{remaining(1, page(a, b)), remaining(0, page(b, c))}}, `page 1: "b" comes after "b"`},
		{"empty page", check.Read{Pages: []check.Page{remaining(3, page()), whole}}, "page 0 is empty, but not the last"},
		{"wrong count", check.Read{Pages: []check.Page{remaining(2, page(a, b)), remaining(0, page(c))}}, "page 0 says that 2 objects remain, it is 1"},
		{"no count", check.Read{Pages: []check.Page{page(a, b, c)}}, "page 0 does not say how many objects remain"},
		{"count with a selector", check.Read{Pages: []check.Page{whole}, Picks: picks}, "page 0 says what remains, although there is a selector"},
		{"object is missing", check.Read{Pages: []check.Page{page(a, c)}, Picks: picks}, `not the state at revision 6: "b" is missing`},
		{"object too many", check.Read{Pages: []check.Page{remaining(0, page(a, b))}, Scope: object.ExactKey("a")}, "says that 0 objects remain, it is -1"},
		{"old object", check.Read{Pages: []check.Page{remaining(0, page(change{"a", 2}, b, c))}}, `"a" has mod revision 2 instead of 4`},
		{"object before the first key", check.Read{Pages: []check.Page{page(a, b, c)}, Picks: picks, StartKey: "b"}, `"a" should not be there`},
		{"object is missing, unfinished", check.Read{Pages: []check.Page{page(a, c)}, Picks: picks, Unfinished: true}, `"b" is missing`},
		{"beyond the truth", check.Read{Pages: []check.Page{beyond}}, "cannot check"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.read.Reader = "reader"
			err := check.Consistent(&test.read, newTruth(t))
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "reader") {
				t.Errorf("got %v, want one with %q", err, test.says)
			}
		})
	}
}
