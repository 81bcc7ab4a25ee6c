// Package seed makes random tests repeatable.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is what repeats a test when it is set to the seed that the test has
// printed.
const Variable = "FANOUTD_SEED"

// Seed is where all random numbers of a test come from.
type Seed uint64

// New returns the seed of a test: a new one, unless an old one is given. It is
// shown when the test fails.
func New(t testing.TB) Seed {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv(Variable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", Variable, err)
		}
	}
	t.Logf("%s=%d", Variable, seed)
	return Seed(seed)
}

// Rand returns a source of random numbers for one of the actors of a test, which
// do not have to wait for each other.
func (s Seed) Rand(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(s), actor)) }
