package e2e

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// generator gives every actor of a test a source of random numbers of its own, all
// of them from the seed of the test.
type generator func(actor uint64) *rand.Rand

// random returns the generator of a test.
func random(t *testing.T) generator {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("FANOUTD_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("FANOUTD_SEED: %v", err)
		}
	}
	t.Logf("FANOUTD_SEED=%d", seed)
	return func(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, actor)) }
}
