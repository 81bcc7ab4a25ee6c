package main

import (
	"slices"
	"testing"
)

// A mistyped name is compared with those that exist. A short one is close to everything, so it must be
// closer.
func TestSimilarNames(t *testing.T) {
	for typed, want := range map[string][]string{
		"lst": {"list"}, "GTE": {"get"}, "to": {"top"}, "revisoin": {"revision"}, "rev": {"revision"},
		"outptu": {"output"}, "out": {"output"}, "xy": nil, "at": nil, "context": nil, "lits": {"list"},
	} {
		if got := similar([]string{"get", "list", "top", "txn", "output", "revision"}, typed); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", typed, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "ab", 1}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"kitten", "sitting", 3}} {
		if got, back := edits(c.a, c.b), edits(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: got %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

// A share is above 0% and at most 100%.
func TestPercentages(t *testing.T) {
	for text, valid := range map[string]bool{"99%": true, "0.1%": true, "100%": true, "0%": false, "-1%": false, "101%": false, "99": false, "%": false, "NaN%": false} {
		var p percentage
		if err := p.Set(text); (err == nil) != valid || valid && p.String() != text {
			t.Errorf("%s: got %v, %v", text, p.String(), err)
		}
	}
}
