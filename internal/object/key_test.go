package object_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

func TestParseKey(t *testing.T) {
	good := []string{"a", "a/b", "a/b/c.json", "ä/ö", "a b", "...", "a/.b", "-", "*", strings.Repeat("k", object.MaxKeyBytes)}
	for _, s := range good {
		if key, err := object.ParseKey(s); err != nil || string(key) != s {
			t.Errorf("%q: got %q, %v, want the same key", s, key, err)
		}
	}
	bad := map[string]string{ // to a part of the error
		"":         "empty",
		"/":        "empty segment",
		"/a":       "empty segment",
		"a/":       "empty segment",
		"a//b":     "empty segment",
		".":        `"."`,
		"a/./b":    `"."`,
		"..":       `".."`,
		"a/..":     `".."`,
		"a\x00b":   "control character at byte 1",
		"a\nb":     "control character at byte 1",
		"ä\u0085":  "control character at byte 2",
		"a\xff":    "UTF-8",
		"\xc3\x28": "UTF-8",
		strings.Repeat("k", object.MaxKeyBytes+1): "1025 bytes",
	}
	for s, want := range bad {
		if key, err := object.ParseKey(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want an error with %q", s, key, err, want)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"a/b", "", "//", "a/../b", "\xff", "\u0085", strings.Repeat("/", 2000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := object.ParseKey(s)
		if err != nil {
			return
		}
		// The scopes of a key cover the key. Its prefix covers only longer keys.
		scopes := slices.Collect(object.ScopesOf(key))
		if len(scopes) != strings.Count(s, "/")+2 {
			t.Errorf("got %d scopes of %q, want %d", len(scopes), s, strings.Count(s, "/")+2)
		}
		for _, scope := range scopes {
			if !scope.Contains(key) || scope.First() > key {
				t.Errorf("%v does not cover %q, or its first key is larger", scope, key)
			}
		}
		prefix, err := object.ParsePrefix(s)
		if err != nil {
			t.Fatalf("%q is a valid key but not a valid prefix: %v", s, err)
		}
		if prefix.Contains(key) || !prefix.Contains(key+"/x") || prefix.Contains(key+"x") {
			t.Errorf("%v covers the wrong keys", prefix)
		}
	})
}

func TestScopesEndAtSegments(t *testing.T) {
	prefix := func(s string) object.Scope {
		scope, err := object.ParsePrefix(s)
		if err != nil {
			t.Fatal(err)
		}
		return scope
	}
	tests := []struct {
		scope     object.Scope
		inside    []object.Key
		outside   []object.Key
		first     object.Key
		canonical string
	}{
		{
			scope:     object.Scope{},
			inside:    []object.Key{"a", "a/b", "/", "\x00"},
			canonical: "*",
		},
		{
			scope:     prefix("a"),
			inside:    []object.Key{"a/", "a/b", "a/b/c"},
			outside:   []object.Key{"", "a", "ab", "ab/c", "b/a/c"},
			first:     "a/",
			canonical: "a/*",
		},
		{
			scope:     prefix("a/b/"),
			inside:    []object.Key{"a/b/c"},
			outside:   []object.Key{"a/b", "a/bc", "a/c"},
			first:     "a/b/",
			canonical: "a/b/*",
		},
		{
			scope:     object.ExactKey("a/b"),
			inside:    []object.Key{"a/b"},
			outside:   []object.Key{"a", "a/b/", "a/b/c", "a/bc"},
			first:     "a/b",
			canonical: "=a/b",
		},
	}
	for _, tc := range tests {
		for _, key := range tc.inside {
			if !tc.scope.Contains(key) {
				t.Errorf("%v does not cover %q", tc.scope, key)
			}
		}
		for _, key := range tc.outside {
			if tc.scope.Contains(key) {
				t.Errorf("%v covers %q, want not", tc.scope, key)
			}
		}
		if tc.scope.First() != tc.first || tc.scope.String() != tc.canonical {
			t.Errorf("got scope %v with first key %q, want %s with %q", tc.scope, tc.scope.First(), tc.canonical, tc.first)
		}
	}
	if prefix("a/") != prefix("a") {
		t.Error("prefixes with and without a trailing slash differ")
	}
	if prefix("a") == object.ExactKey("a") {
		t.Error("a prefix and a key are the same scope")
	}
}

func TestParsePrefixRefuses(t *testing.T) {
	for _, s := range []string{"", "/", "//", "a//", "/a", "a//b", "a/../b", "\xff", "a\n"} {
		if scope, err := object.ParsePrefix(s); err == nil {
			t.Errorf("%q is accepted as %v", s, scope)
		}
	}
}

// Other programs write keys to etcd that fanoutd would refuse.
func TestKeyScopeAcceptsAnyTextKey(t *testing.T) {
	for _, s := range []string{"/a", "a//b", "..", "a\nb"} {
		if scope, err := object.ParseKeyScope(s); err != nil || !scope.Contains(object.Key(s)) {
			t.Errorf("%q: got %v, want a scope that covers the key", s, err)
		}
	}
	for _, s := range []string{"", "\xff"} {
		if _, err := object.ParseKeyScope(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestScopesOfGoFromWideToNarrow(t *testing.T) {
	var got []string
	for scope := range object.ScopesOf("a/b/c") {
		got = append(got, scope.String())
	}
	if want := []string{"*", "a/*", "a/b/*", "=a/b/c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for scope := range object.ScopesOf("a/b") {
		if scope != (object.Scope{}) {
			t.Error("the iterator continues after a break")
		}
		break
	}
	if name := object.Key("a/b/c").Name(); name != "c" {
		t.Errorf("got the name %q, want c", name)
	}
	if name := object.Key("c").Name(); name != "c" {
		t.Errorf("got the name %q, want c", name)
	}
}
