package e2e

import (
	"fmt"
	"math/rand/v2"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// The keys of the test. They are few, so that each changes often, and some are neighbors
// that a careless prefix comparison confuses: "team-1" is a key, a prefix of keys, and
// the beginning of "team-10".
const (
	teams    = 11
	services = 4
	keys     = 6
)

func randomKey(rng *rand.Rand) string {
	team := fmt.Sprintf("team-%d", rng.IntN(teams))
	service := fmt.Sprintf("%s/svc-%d", team, rng.IntN(services))
	switch rng.IntN(20) {
	case 0:
		return team
	case 1:
		return service
	}
	return fmt.Sprintf("%s/key-%d", service, rng.IntN(keys))
}

// randomKeys returns up to n different keys.
func randomKeys(rng *rand.Rand, n int) []string {
	seen := map[string]bool{}
	var all []string
	for range n {
		if key := randomKey(rng); !seen[key] {
			seen[key] = true
			all = append(all, key)
		}
	}
	return all
}

func wholeResource() *fanoutv1.Scope { return nil }

func prefixScope(path string) *fanoutv1.Scope {
	return &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: path}}
}

func keyScope(key string) *fanoutv1.Scope {
	return &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}
}
