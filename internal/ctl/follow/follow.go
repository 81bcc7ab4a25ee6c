// Package follow is what "fanoutctl watch" does with the updates of a watch:
//
//   - a [Follower] prints them;
//   - an [Executor] runs a [Command] for each change;
//   - a [Renderer] keeps files up to date from templates ([TemplateFile]).
//
// They have a Run method, which reads the watch until the context ends, the watch fails or
// its goal is reached. Run stops the watch and all goroutines before it returns.
//
// A watch that starts over sends the complete state again. A [client.Copy] keeps the objects
// and reports only real differences. [PositionFile] saves the position, so that the next process
// can resume.
package follow

import (
	"context"
	"iter"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/backoff"
)

// Updates starts a watch that lasts until ctx ends.
type Updates func(ctx context.Context) Stream

// Stream yields the updates of a watch. An error is the last element.
type Stream = iter.Seq2[*client.Update, error]

// Policy is what to do when a command fails.
type Policy string

// The policies.
const (
	Stop     Policy = "stop"     // return the error
	Continue Policy = "continue" // report the error and go on with the next change
	Retry    Policy = "retry"    // report the error, go on, and run the command again until it succeeds or the object changes
)

// retries are the delays before further attempts.
var retries = backoff.Backoff{First: time.Second, Most: 30 * time.Second}

// SavePosition saves the position to resume from. With now, commands have run since the
// last call, so the position must be on disk before the next command runs.
type SavePosition func(p client.Position, now bool) error

// Limits of the time for which a watch goes on after a failure that ends it.
const (
	announceTimeout = 5 * time.Second // until the failure is reported
	announceTime    = 3 * time.Second // after that: servers count failures for gates every half second
)

// announce is called when a failure is about to end the watch. It reports the failure first, and leaves gates the time to
// see it. Once the watch has ended, a gate does not know why, and succeeds if the other subscribers are healthy.
func announce(ctx context.Context, f *client.Failures) {
	limited, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	if f.Flush(limited) {
		backoff.Sleep(ctx, announceTime)
	}
}
