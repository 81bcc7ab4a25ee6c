package server_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// inbox collects the messages of a watch in the background. A test can check at any moment
// which messages have arrived and which have not.
type inbox struct {
	mu      sync.Mutex
	all     []*fanoutv1.WatchResponse // guarded by mu
	err     error                     // guarded by mu; how the stream ended
	changed chan struct{}             // guarded by mu; closed and replaced for every message
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

// received returns the messages so far.
func (in *inbox) received() []*fanoutv1.WatchResponse {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.all)
}

// await waits until the messages satisfy the condition and returns them.
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
			t.Fatalf("the stream ended with %v after %d messages", err, len(all))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("timed out after %d messages: %v", len(all), all)
		}
	}
}

// end waits for the end of the stream. It returns all messages and the error.
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
			t.Fatalf("timed out waiting for the end of the stream; the last of %d messages is %v", len(all), all[max(0, len(all)-1):])
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
