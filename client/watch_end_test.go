package client_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// resumption returns how long a watch waits after each stream of a script until the next one begins, and how
// often it is interrupted meanwhile.
func resumption(t *testing.T, streams []stream, opts ...client.WatchOption) (pauses []time.Duration, interruptions int) {
	t.Helper()
	var ended time.Time
	s := &scriptedServer{}
	done := make(chan struct{})
	s.script = func(*fanoutv1.WatchRequest) stream {
		n := len(s.requests)
		if n > 0 && n <= len(streams) {
			pauses = append(pauses, time.Since(ended))
		}
		if n >= len(streams) {
			if n == len(streams) {
				close(done)
			}
			return stream{}
		}
		next := streams[n]
		ended = time.Now().Add(next.silence + next.lasts)
		return next
	}
	go func() {
		for range connectTo(t, s).Watch(t.Context(), append(opts, client.OnInterruption(func(error) { interruptions++ }))...) {
		}
	}()
	<-done
	synctest.Wait()
	return pauses, interruptions
}

func TestTheEndOfAStreamIsNoInterruption(t *testing.T) {
	for name, c := range map[string]stream{
		"after its first state": {messages: []message{reset(), synced(5)}, end: errOK},
		"drained":               {messages: []message{reset(), synced(5), draining(5)}, end: errOK},
		"drained in its turn":   {messages: []message{reset(), synced(5), drainedInTurn(5)}, end: errOK},
		"without a message":     {end: errOK},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if pauses, n := resumption(t, slices.Repeat([]stream{c}, 8)); n > 0 {
					t.Errorf("got %d interruptions; the pauses were %v", n, pauses)
				}
			})
		})
	}
}

// The delay is that after a failure: it grows while streams end early.
func TestTheDelayAfterTheEndOfAStream(t *testing.T) {
	for name, c := range map[string]struct {
		stream stream
		grows  bool
	}{
		"lasted":  {stream: stream{messages: []message{reset(), synced(5)}, lasts: 5 * time.Second, end: errOK}},
		"short":   {stream{messages: []message{reset(), synced(5), draining(5)}, end: errOK}, true},
		"useless": {stream{silence: 4 * time.Second, end: errOK}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Of thirty delays that grow, the longest is this short once in 10^34 runs.
				pauses, _ := resumption(t, slices.Repeat([]stream{c.stream}, 30))
				if longest := slices.Max(pauses); longest > 200*time.Millisecond != c.grows || pauses[0] > 200*time.Millisecond {
					t.Errorf("the pauses are %v", pauses)
				}
			})
		})
	}
}

// That a server drains is the reason of the end, however the stream ends.
func TestADrainedWatchResumesAtOnceHoweverItsStreamEnds(t *testing.T) {
	for name, end := range map[string]error{"OK": errOK, "lost": errLost, "draining": refusal(codes.Unavailable, client.ErrDraining)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pauses, _ := resumption(t, slices.Repeat([]stream{{messages: []message{reset(), synced(5), drainedInTurn(5)}, end: end}}, 3))
				if slices.Max(pauses) > 0 {
					t.Errorf("the pauses are %v, want none", pauses)
				}
			})
		})
	}
}

// The watchers of a server that stops spread over a second, also if its error is lost on the way.
func TestDrainedWatchesSpread(t *testing.T) {
	for name, end := range map[string]error{"lost": errLost, "draining": refusal(codes.Unavailable, client.ErrDraining)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				drained := stream{messages: []message{reset(), synced(5), draining(5)}, lasts: 5 * time.Second, end: end}
				// Of thirty delays below a second, the longest is this short once in 10^20 runs.
				pauses, _ := resumption(t, slices.Repeat([]stream{drained}, 30))
				if longest := slices.Max(pauses); longest < 200*time.Millisecond || longest > time.Second {
					t.Errorf("the longest pause is %v", longest)
				}
			})
		})
	}
}
