package policy_test

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
)

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func named(name string, groups ...string) access.Identity {
	return access.Identity{Name: name, Groups: groups, Method: access.Token}
}

func subtree(t testing.TB, path string) object.Scope {
	t.Helper()
	s, err := object.ParsePrefix(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var everything object.Scope

func TestNilPolicyGrantsEverything(t *testing.T) {
	var p *policy.Policy
	if !p.Grants(access.Identity{}, policy.Question{Verb: policy.Admin, Resource: "config"}) {
		t.Error("a nil policy denied a question")
	}
}

func TestEmptyPolicyGrantsNothing(t *testing.T) {
	p := parse(t, "rules: []")
	if p.Grants(named("alice", "ops"), policy.Question{Verb: policy.Get, Resource: "config", Scope: object.ExactKey("a")}) {
		t.Error("an empty policy granted a question")
	}
}

func TestGrantsByScope(t *testing.T) {
	p := parse(t, `
rules:
- subjects: [key]
  verbs: [get, watch]
  resources: [config]
  keys: [a/b, a]
- subjects: [prefix]
  verbs: [get, watch]
  resources: [config]
  prefixes: [a/b, c/]
- subjects: [all]
  verbs: [get, watch]
  resources: [config]
- subjects: [pieces]
  verbs: [get, watch]
  resources: [config]
  prefixes: [a/b]
- subjects: [pieces]
  verbs: [get, watch]
  resources: [config]
  keys: [d]
`)
	for _, test := range []struct {
		scope   object.Scope
		granted string // the callers it is granted to, by first letter
	}{
		{object.ExactKey("a"), "k a "},
		{object.ExactKey("a/b"), "k a "}, // a subtree does not contain its own root
		{object.ExactKey("a/b/c"), "pfx a pcs "},
		{object.ExactKey("a/b/"), "pfx a pcs "},
		{object.ExactKey("a/bc"), "a "},
		{object.ExactKey("c/"), "pfx a "},
		{object.ExactKey("c/d/e"), "pfx a "},
		{object.ExactKey("d"), "a pcs "},
		{object.ExactKey(""), "a "},
		{object.ExactKey("/a/b/c"), "a "},
		{object.ExactKey("a//b"), "a "},
		{subtree(t, "a"), "a "},
		{subtree(t, "a/b"), "pfx a pcs "},
		{subtree(t, "a/b/c"), "pfx a pcs "},
		{subtree(t, "a/bc"), "a "},
		{subtree(t, "c"), "pfx a "},
		{subtree(t, "d"), "a "},
		{everything, "a "},
	} {
		var granted strings.Builder
		for _, who := range []struct{ name, short string }{{"key", "k "}, {"prefix", "pfx "}, {"all", "a "}, {"pieces", "pcs "}} {
			if p.Grants(named(who.name), policy.Question{Verb: policy.Watch, Resource: "config", Scope: test.scope}) {
				granted.WriteString(who.short)
			}
		}
		if granted.String() != test.granted {
			t.Errorf("%v is granted to %q, want %q", test.scope, granted.String(), test.granted)
		}
	}
}

func TestGrantsBySubject(t *testing.T) {
	p := parse(t, `
groups:
  ops: [alice, anonymous, "team:red:*"]
  unused: [mallory]
rules:
- {subjects: [alice], verbs: [get], resources: [a]}
- {subjects: [spiffe://example.com/prod/*], verbs: [get], resources: [b]}
- {subjects: ["*"], verbs: [get], resources: [c]}
- {subjects: [anonymous], verbs: [get], resources: [d]}
- {groups: [ops], verbs: [get], resources: [e]}
- {groups: [staff], verbs: [get], resources: [f]}
- {subjects: [bob], verbs: ["*"], resources: ["*"]}
`)
	for _, test := range []struct {
		who     access.Identity
		granted string
	}{
		{access.Identity{}, "de"},
		{access.Identity{Name: "alice", Groups: []string{"staff", "ops"}}, "de"}, // not authenticated
		{named("anonymous"), "c"},
		{named(""), "c"},
		{named("*"), "c"},
		{named("alice"), "ace"},
		{named("Alice"), "c"},
		{named("alice2"), "c"},
		{named("mallory"), "c"},
		{named("mallory", "unused"), "c"},
		{named("mallory", "ops"), "ce"},
		{named("mallory", "staff", "staff"), "cf"},
		{named("spiffe://example.com/prod/api"), "bc"},
		{named("spiffe://example.com/prod/"), "bc"},
		{named("spiffe://example.com/prod"), "c"},
		{named("spiffe://example.com/production/api"), "c"},
		{named("xspiffe://example.com/prod/api"), "c"},
		{named("team:red:1"), "ce"},
		{named("team:reds:1"), "c"},
		{named("ops"), "c"},
		{named("bob"), "abcdefg"},
	} {
		var granted strings.Builder
		for _, resource := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			if p.Grants(test.who, policy.Question{Verb: policy.Get, Resource: resource}) {
				granted.WriteString(resource)
			}
		}
		if granted.String() != test.granted {
			t.Errorf("%+v may get %q, want %q", test.who, granted.String(), test.granted)
		}
	}
}

func TestGrantsByVerb(t *testing.T) {
	all := []policy.Verb{policy.Get, policy.List, policy.Watch, policy.Put, policy.Delete, policy.Admin, policy.Metrics}
	for _, granted := range all {
		p := parse(t, "rules: [{subjects: [a], verbs: ["+granted.String()+`], resources: ["*"]}, {subjects: [b], verbs: ["*"], resources: [r], keys: [k]}]`)
		for _, asked := range all {
			if got := p.Grants(named("a"), policy.Question{Verb: asked, Resource: "r"}); got != (asked == granted || granted == policy.Admin && asked == policy.Metrics) {
				t.Errorf("%v grants %v: %v", granted, asked, got)
			}
			if !p.Grants(named("b"), policy.Question{Verb: asked, Resource: "r", Scope: object.ExactKey("k")}) {
				t.Errorf("* does not grant %v", asked)
			}
			if p.Grants(named("b"), policy.Question{Verb: asked, Resource: "r"}) {
				t.Errorf("* for a key grants %v for the whole resource", asked)
			}
		}
		if v, err := policy.ParseVerb(granted.String()); v != granted || err != nil {
			t.Errorf("%v is parsed as %v, %v", granted, v, err)
		}
	}
	if _, err := policy.ParseVerb("*"); err == nil {
		t.Error("ParseVerb accepted *")
	}
}

func TestQuestionString(t *testing.T) {
	for want, q := range map[string]policy.Question{
		`get key "a/b" of resource "config"`:            {Verb: policy.Get, Resource: "config", Scope: object.ExactKey("a/b")},
		`put key "a" of resource "config"`:              {Verb: policy.Put, Resource: "config", Scope: object.ExactKey("a")},
		`delete key "a" of resource "config"`:           {Verb: policy.Delete, Resource: "config", Scope: object.ExactKey("a")},
		`watch the keys below "a" of resource "config"`: {Verb: policy.Watch, Resource: "config", Scope: subtree(t, "a/")},
		`list all keys of resource "config"`:            {Verb: policy.List, Resource: "config"},
		`administer resource "config"`:                  {Verb: policy.Admin, Resource: "config"},
		`administer all resources`:                      {Verb: policy.Admin, Resource: "*"},
		`administer key "a" of resource "config"`:       {Verb: policy.Admin, Resource: "config", Scope: object.ExactKey("a")},
		`read the metrics`:                              {Verb: policy.Metrics, Resource: "*"},
	} {
		if got := q.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestGrantsDoesNotAllocate(t *testing.T) {
	p := parse(t, `rules: [{subjects: [x/*], groups: [g], verbs: [get], resources: ["*"], keys: [a/b], prefixes: [c/d]}]`)
	who, q := named("x/y/z", "f", "g"), policy.Question{Verb: policy.Get, Resource: "config", Scope: object.ExactKey("c/d/e")}
	if n := testing.AllocsPerRun(100, func() {
		if !p.Grants(who, q) {
			t.Error("the question was denied")
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
