// Package seed makes random tests repeatable.
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that sets the seed, to repeat a test.
const Variable = "FANOUTD_SEED"

// Seed is the seed of all random numbers of a test.
type Seed uint64

// New returns the seed of a test: a random one, unless the variable is set. A failing test
// prints it.
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

// Rand returns a separate source of random numbers for one goroutine of a test.
func (s Seed) Rand(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(s), actor)) }
