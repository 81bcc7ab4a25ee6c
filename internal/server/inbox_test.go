package server_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// inbox takes what a watch brings as it comes, so that a test can look at what has
// come by a certain moment, and at what has not.
type inbox struct {
	mu      sync.Mutex
	all     []*fanoutv1.WatchResponse // guarded by mu
	err     error                     // guarded by mu; how the stream ended
	changed chan struct{}             // guarded by mu; closed and replaced with every message
}

// collect reads the rest of the watch in the background.
func (w *watch) collect() *inbox {
	in := &inbox{changed: make(chan struct{})}
	go func() {
		for {
			m, err := w.stream.Recv()
			in.mu.Lock()
			if in.err = err; err == nil {
				in.all = append(in.all, m)
			}
			close(in.changed)
			in.changed = make(chan struct{})
			in.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return in
}

// received returns what has come so far.
func (in *inbox) received() []*fanoutv1.WatchResponse {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.all)
}

// await returns what has come when that is enough.
func (in *inbox) await(ctx context.Context, t *testing.T, enough func([]*fanoutv1.WatchResponse) bool) []*fanoutv1.WatchResponse {
	t.Helper()
	for {
		in.mu.Lock()
		all, err, changed := slices.Clone(in.all), in.err, in.changed
		in.mu.Unlock()
		if enough(all) {
			return all
		}
		if err != nil {
			t.Fatalf("the stream ends with %v after %d messages", err, len(all))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("waiting for more than these %d messages: %v", len(all), all)
		}
	}
}

// end returns everything that has come, and how the stream ended.
func (in *inbox) end(ctx context.Context, t *testing.T) ([]*fanoutv1.WatchResponse, error) {
	t.Helper()
	for {
		in.mu.Lock()
		all, err, changed := slices.Clone(in.all), in.err, in.changed
		in.mu.Unlock()
		if err != nil {
			return all, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the stream does not end; the last of %d messages is %v", len(all), all[max(0, len(all)-1):])
		}
	}
}

// bookmarksIn returns the messages that are bookmarks.
func bookmarksIn(all []*fanoutv1.WatchResponse) []*fanoutv1.WatchResponse {
	var bookmarks []*fanoutv1.WatchResponse
	for _, m := range all {
		if m.GetKind() == fanoutv1.WatchResponse_KIND_BOOKMARK {
			bookmarks = append(bookmarks, m)
		}
	}
	return bookmarks
}
