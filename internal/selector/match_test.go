package selector_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// some returns n random words, possibly repeated.
func some(r *rand.Rand, n int, words ...string) []string {
	chosen := make([]string, n)
	for i := range chosen {
		chosen[i] = words[r.IntN(len(words))]
	}
	return chosen
}

// Random selectors match the same objects as with Kubernetes' own functions.
func TestMatchesLikeKubernetes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := rand.New(rand.NewPCG(1, 2))
	keys, texts := []string{"a", "b", "c", "d"}, []string{"1", "2", "3", "x"}
	matched, tried := 0, 50_000
	for range tried {
		var ofLabels, ofFields []string
		for range r.IntN(5) {
			key, value := some(r, 1, keys...)[0], some(r, 1, texts...)[0]
			ofLabels = append(ofLabels, some(r, 1, key+"="+value, key+"!="+value, key, "!"+key, key+">1", key+"<3", key+">2",
				key+" in ("+strings.Join(some(r, 3, texts...), ",")+")", key+" notin ("+strings.Join(some(r, 2, texts...), ",")+")")[0])
		}
		for range r.IntN(3) {
			ofFields = append(ofFields, some(r, 1, "region", "tier")[0]+some(r, 1, "=", "!=")[0]+some(r, 1, "", "1", "2")[0])
		}
		d := object.Decoded{Key: "k", Labels: map[string]string{}, Fields: some(r, 2, "", "1", "2")}
		for _, key := range some(r, r.IntN(5), keys...) {
			d.Labels[key] = some(r, 1, texts...)[0]
		}
		l, f := strings.Join(ofLabels, ","), strings.Join(ofFields, ",")
		theirs, err := labels.Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		want := theirs.Matches(labels.Set(d.Labels)) &&
			fields.ParseSelectorOrDie(f).Matches(fields.Set{"region": d.Fields[0], "tier": d.Fields[1]})
		if got := parse(t, l, f).Matches(object.New(d, nil, 0)); got != want {
			t.Fatalf("%q and %q with labels %v and fields %q: got %v, want %v", l, f, d.Labels, d.Fields, got, want)
		}
		if want {
			matched++
		}
	}
	if matched < tried/20 || matched > tried*19/20 {
		t.Errorf("%d of %d objects matched, want a more even distribution", matched, tried)
	}
}

// sizes returns selectors from the smallest to the largest size.
func sizes() []struct{ name, text string } {
	var many, values []string
	for i := range selector.MaxRequirements - 1 {
		many = append(many, fmt.Sprintf("a%d!=x", i))
		values = append(values, fmt.Sprintf("v%d", i))
	}
	return []struct{ name, text string }{
		{"one", "app=shop"},
		{"three", "app=shop,env!=test,tier in (web,db)"},
		{"many", strings.Join(many, ",")},
		{"many values", "app notin (" + strings.Join(values, ",") + ")"},
	}
}

// shop is an object with three labels.
var shop = object.New(object.Decoded{Key: "team/app", Labels: map[string]string{"app": "shop", "env": "prod", "tier": "web"}}, nil, 0)

func TestMatchingAllocatesNothing(t *testing.T) {
	for _, c := range sizes() {
		s := parse(t, c.text, "")
		if n := testing.AllocsPerRun(100, func() { s.Matches(shop) }); n != 0 {
			t.Errorf("%s: got %v allocations, want none", c.name, n)
		}
	}
}

// A large selector must not cost much more than a small one.
func BenchmarkMatches(b *testing.B) {
	for _, c := range sizes() {
		s, err := selector.ParseLabels(c.text)
		if err != nil {
			b.Fatal(err)
		}
		theirs, err := labels.Parse(c.text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Matches(shop)
			}
		})
		b.Run(c.name+"/kubernetes", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				theirs.Matches(labels.Set(shop.Labels()))
			}
		})
	}
}
