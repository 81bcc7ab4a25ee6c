package direct

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/fanoutd/fanoutd/internal/backoff"
)

// Why a watch of the store is looked at, and given up though it has not failed.
var (
	errNoAnswer = errors.New("the watch does not say that it is where the store is")
	errDeaf     = errors.New("the store is ahead and its watch says nothing")
)

// deafness is how often in a row a watch may be asked in vain, and say nothing else
// either, while the store is ahead of it.
const deafness = 3

// pulse has the tail get to where the store is now and then, until ctx is done,
// whether or not anybody asks for bookmarks. For two reasons: who has missed nothing
// shall not be left at an old position, because the store may have forgotten it when
// he comes back; and a watch that has gone deaf would otherwise never be noticed. In
// that case the error is errDeaf.
func (t *tail) pulse(ctx context.Context) error {
	interval := t.source.cfg.ProgressInterval
	silent := 0
	// Many watches may have begun at the same time.
	for backoff.Sleep(ctx, interval/2+rand.N(interval)) {
		heard := t.count()
		switch err := t.arrive(ctx); {
		case errors.Is(err, errNewEpoch):
			return err // of which the watch need not hear, where it is one of keys
		case t.count() != heard, err == nil:
			silent = 0
		case errors.Is(err, errNoAnswer):
			if silent++; silent == deafness {
				return errDeaf
			}
		}
	}
	return nil
}
