package past

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Random writes of a few objects: each of their states is found again, and each difference between two of them.
func TestStatesOfAScope(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	_, r, _, _ := remembering(t)
	ctx := poll.Context(t)
	random := rand.New(rand.NewPCG(1, 2))
	now := map[string]string{}
	states := map[int64]map[string]string{}
	for i := range 150 {
		key, other := fmt.Sprintf("k/%d", random.IntN(8)), fmt.Sprintf("k/%d", 8+random.IntN(8))
		value := fmt.Sprint(random.IntN(3))
		ops := []client.Op{client.OpPut(key, client.Text(value)), client.OpPut(fmt.Sprintf("outside/%d", i), client.Text(value))}
		now[key] = value
		if random.IntN(2) == 0 {
			ops = append(ops, client.OpDelete(other))
			delete(now, other)
		} else if random.IntN(2) == 0 {
			ops = append(ops, client.OpPut(other, client.Text(value)))
			now[other] = value
		}
		done, err := r.Transact(ctx, ops...)
		if err != nil {
			t.Fatal(err)
		}
		states[done.Revision] = maps.Clone(now)
	}
	revisions := slices.Sorted(maps.Keys(states))
	scope := client.Prefix("k")
	for range 10 {
		revision := revisions[random.IntN(len(revisions))]
		got := map[string]string{}
		last := ""
		for s, err := range All(ctx, r, scope, revision) {
			if err != nil || s.Unknown != "" || s.Key <= last {
				t.Fatalf("at %d, after %q: got %+v, %v", revision, last, s, err)
			}
			got[s.Key], last = string(s.Object.Value), s.Key
		}
		if diff := cmp.Diff(states[revision], got); diff != "" {
			t.Errorf("at revision %d (-want +got):\n%s", revision, diff)
		}

		from, to := revision, revisions[random.IntN(len(revisions))]
		want := map[string][2]string{}
		for i := range 16 {
			key := fmt.Sprintf("k/%d", i)
			if pair := [2]string{states[from][key], states[to][key]}; pair[0] != pair[1] {
				want[key] = pair
			}
		}
		different := map[string][2]string{}
		for d, err := range Differences(ctx, r, scope, from, to) {
			if err != nil || d.From.Unknown != "" || d.To.Unknown != "" {
				t.Fatalf("from %d to %d: got %+v, %v", from, to, d, err)
			}
			different[d.From.Key] = [2]string{valueOf(d.From), valueOf(d.To)}
		}
		if diff := cmp.Diff(want, different); diff != "" {
			t.Errorf("from revision %d to %d (-want +got):\n%s", from, to, diff)
		}
	}

	// The keys in memory are limited.
	if _, err := changedKeys(ctx, r, scope, revisions[0], 0, 3); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v, want too many", err)
	}
	if _, err := changedKeys(ctx, r, client.Key("k/1"), revisions[0], 0, 3); err != nil {
		t.Error(err)
	}
}

func valueOf(s State) string {
	if s.Object == nil {
		return ""
	}
	return string(s.Object.Value)
}
