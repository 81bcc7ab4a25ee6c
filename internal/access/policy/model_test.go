package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// naive is a policy as written in its file. It answers by testing every rule, as the
// documentation describes.
type naive struct {
	Groups map[string][]string `yaml:"groups,omitempty"`
	Rules  []naiveRule         `yaml:"rules"`
}

type naiveRule struct {
	Subjects  []string `yaml:"subjects,omitempty"`
	Groups    []string `yaml:"groups,omitempty"`
	Verbs     []string `yaml:"verbs"`
	Resources []string `yaml:"resources"`
	Keys      []string `yaml:"keys,omitempty"`
	Prefixes  []string `yaml:"prefixes,omitempty"`
}

func (n *naive) grants(who access.Identity, q policy.Question) bool {
	return slices.ContainsFunc(n.Rules, func(r naiveRule) bool {
		has := func(all []string, s string) bool { return slices.Contains(all, s) || slices.Contains(all, "*") }
		verb := has(r.Verbs, q.Verb.String()) || q.Verb == policy.Metrics && has(r.Verbs, "admin")
		return n.means(r, who) && verb && has(r.Resources, q.Resource) && r.covers(q.Scope)
	})
}

func (n *naive) means(r naiveRule, who access.Identity) bool {
	subjects := slices.Clone(r.Subjects)
	for _, group := range r.Groups {
		if !who.Anonymous() && slices.Contains(who.Groups, group) {
			return true
		}
		subjects = append(subjects, n.Groups[group]...)
	}
	return slices.ContainsFunc(subjects, func(s string) bool {
		family, isFamily := strings.CutSuffix(s, "*")
		switch {
		case s == policy.Anonymous:
			return who.Anonymous()
		case who.Anonymous():
			return false
		case isFamily:
			return strings.HasPrefix(who.Name, family)
		}
		return s == who.Name
	})
}

func (r *naiveRule) covers(s object.Scope) bool {
	if len(r.Keys)+len(r.Prefixes) == 0 {
		return true
	}
	if key, ok := s.Key(); ok {
		return slices.Contains(r.Keys, string(key)) || slices.ContainsFunc(r.Prefixes, func(p string) bool {
			return strings.HasPrefix(string(key), p+"/")
		})
	}
	prefix, ok := s.Prefix()
	return ok && slices.ContainsFunc(r.Prefixes, func(p string) bool { return strings.HasPrefix(prefix+"/", p+"/") })
}

// world generates random policies and questions.
type world struct{ *rand.Rand }

func (w world) path() string {
	segments := make([]string, 1+w.IntN(4))
	for i := range segments {
		segments[i] = w.one("a", "b", "ab", "ä")
	}
	return strings.Join(segments, "/")
}

func (w world) one(of ...string) string { return of[w.IntN(len(of))] }

func (w world) some(least int, make func() string) []string {
	all := []string{}
	for range least + w.IntN(3) {
		all = append(all, make())
	}
	return all
}

func (w world) subject() string {
	return w.one("alice", "bob", "*", "x/*", "x/y/*", "x:*", "x/y", policy.Anonymous)
}
func (w world) group() string    { return w.one("g", "h", "i") }
func (w world) resource() string { return w.one("r", "s", "*") }

func (w world) policy() *naive {
	n := &naive{Groups: map[string][]string{}, Rules: []naiveRule{}}
	for range w.IntN(3) {
		n.Groups[w.group()] = w.some(1, w.subject)
	}
	for range w.IntN(6) {
		r := naiveRule{Groups: w.some(0, w.group), Resources: w.some(1, w.resource), Keys: w.some(0, w.path), Prefixes: w.some(0, w.path)}
		r.Subjects = w.some(max(0, 1-len(r.Groups)), w.subject)
		verbs := []string{"get", "list", "watch", "put", "delete", "skip-validation"}
		if w.IntN(2) == 0 {
			verbs = append(verbs, "*")
		} else if len(r.Keys)+len(r.Prefixes) == 0 {
			verbs = append(verbs, "admin")
			if slices.Contains(r.Resources, "*") {
				verbs = append(verbs, "metrics")
			}
		}
		r.Verbs = w.some(1, func() string { return w.one(verbs...) })
		n.Rules = append(n.Rules, r)
	}
	return n
}

func (w world) identity() access.Identity {
	return access.Identity{
		Name:   w.one("alice", "bob", "x", "x/y", "x/y/z", "x/yy", "x:y", "anonymous", "", "*"),
		Groups: w.some(0, w.group),
		Method: []access.Method{access.None, access.Token, access.JWT}[w.IntN(3)],
	}
}

func (w world) scope(t testing.TB) object.Scope {
	switch w.IntN(7) {
	case 0:
		return everything
	case 1, 2, 3:
		return subtree(t, w.path())
	}
	return w.key()
}

// key returns a random key, including ones that only other programs write.
func (w world) key() object.Scope {
	return object.ExactKey(object.Key(w.one("", "", "", "/") + w.path() + w.one("", "", "", "/", "//a")))
}

func (w world) verb() policy.Verb {
	all := policy.Verbs()
	return all[w.IntN(len(all))]
}

// The compiled policy agrees with its rules tested one by one, and it grants a scope only
// if it also grants every key and prefix inside.
func TestPolicyAgreesWithItsRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	granted := 0
	for seed := range uint64(2000) {
		w := world{rand.New(rand.NewPCG(seed, 0))}
		n := w.policy()
		file, err := yamlfile.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, string(file))
		for range 200 {
			who, q := w.identity(), policy.Question{Verb: w.verb(), Resource: w.one("r", "s", "t"), Scope: w.scope(t)}
			got := p.Grants(who, q)
			if got != n.grants(who, q) {
				t.Fatalf("seed %d: %+v may %v: %v, by the rules %v\n%s", seed, who, q, got, !got, file)
			}
			if got {
				granted++
			}
			for range 5 {
				narrow := q
				narrow.Scope = w.key()
				if key, _ := narrow.Scope.Key(); got && q.Scope.Contains(key) && !p.Grants(who, narrow) {
					t.Fatalf("seed %d: %+v may %v, but not %v\n%s", seed, who, q, narrow, file)
				}
			}
		}
	}
	if granted < 10_000 {
		t.Errorf("only %d questions were granted, too few to prove anything", granted)
	}
}

func TestRightsOnKeysNeverGrantARange(t *testing.T) {
	for seed := range uint64(200) {
		w := world{rand.New(rand.NewPCG(seed, 1))}
		n := &naive{Rules: []naiveRule{{Subjects: []string{"alice"}, Verbs: []string{"*"}, Resources: []string{"*"}, Keys: w.some(50, w.path)}}}
		file, err := yamlfile.Encode(n)
		if err != nil {
			t.Fatal(err)
		}
		p := parse(t, string(file))
		for range 100 {
			q := policy.Question{Verb: w.verb(), Resource: "r", Scope: w.scope(t)}
			if _, isKey := q.Scope.Key(); !isKey && p.Grants(named("alice"), q) {
				t.Fatalf("seed %d: %v is granted by\n%s", seed, q, file)
			}
		}
	}
}

// Parse never panics, and a policy that it accepts answers every question.
func FuzzPolicy(f *testing.F) {
	for _, seed := range []string{
		"", "rules: []",
		"rules: [{subjects: [anonymous], verbs: [admin], resources: [config]}]",
		"groups:\n  g: [a, 'x/*']\nrules:\n- {subjects: [b], groups: [g], verbs: ['*', get], resources: ['*'], keys: [a/b], prefixes: [c/, d]}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := policy.Parse("f", file)
		if (err == nil) != (p != nil) {
			t.Fatalf("got %v and %v", p, err)
		}
		if err != nil {
			if problems, ok := err.(yamlfile.Problems); !ok || len(problems) == 0 {
				t.Fatalf("the error is %#v", err)
			}
			return
		}
		for seed := range uint64(20) {
			w := world{rand.New(rand.NewPCG(seed, 2))}
			who, wide := w.identity(), policy.Question{Verb: w.verb(), Resource: w.one("r", "config"), Scope: w.scope(t)}
			narrow := wide
			narrow.Scope = w.key()
			if key, _ := narrow.Scope.Key(); wide.Scope.Contains(key) && p.Grants(who, wide) && !p.Grants(who, narrow) {
				t.Fatalf("%+v may %v, but not %v", who, wide, narrow)
			}
		}
	})
}

// A decision costs the same with a thousand times the rules.
func BenchmarkGrants(b *testing.B) {
	for _, rules := range []int{10, 10_000} {
		n := &naive{Groups: map[string][]string{"ops": {"alice"}}}
		for i := range rules {
			n.Rules = append(n.Rules, naiveRule{
				Subjects: []string{fmt.Sprint("spiffe://example.com/team-", i, "/*"), "*"}, Groups: []string{"ops", fmt.Sprint("g", i)},
				Verbs: []string{"get", "watch"}, Resources: []string{"config"}, Prefixes: []string{fmt.Sprint("teams/", i), fmt.Sprint("shared/", i)},
			})
		}
		file, err := yamlfile.Encode(n)
		if err != nil {
			b.Fatal(err)
		}
		p := parse(b, string(file))
		who := named("spiffe://example.com/team-7/api/v1/worker", "a", "b", "c", "g7")
		for name, scope := range map[string]object.Scope{
			"granted": object.ExactKey("teams/7/services/api/limits"),
			"denied":  object.ExactKey("secrets/7/services/api/limits"),
			"hostile": object.ExactKey(object.Key("shared/7x/" + strings.Repeat("/", 1<<20))),
		} {
			b.Run(fmt.Sprint(name, "/", rules), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p.Grants(who, policy.Question{Verb: policy.Get, Resource: "config", Scope: scope})
				}
			})
		}
	}
}
