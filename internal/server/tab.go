package server

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/metadata"
)

// tabs hold the room of responses that go to others within the process. gRPC has sent
// such a response when it is there; but there it is held as a message and as JSON until
// its reader has taken it, who may never do so.
type tabs struct {
	latest atomic.Uint64
	open   sync.Map // of *tab, by id
}

// tab is the room of one response.
type tab struct {
	mu     sync.Mutex
	room   *share // guarded by mu; nil: none yet
	closed bool   // guarded by mu: nobody holds the response any more
}

// tabHeader has the id of the tab of a request. It means something on connections within
// the process only.
const tabHeader = "fanoutd-tab"

// tabSize is how often a response is there, at most, that has a tab.
const tabSize = 2

// begin opens a tab for a request, which is closed when its context is done, and returns
// the context to make it with.
func (t *tabs) begin(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx // nobody would close it
	}
	one, id := &tab{}, strconv.FormatUint(t.latest.Add(1), 10)
	t.open.Store(id, one)
	context.AfterFunc(ctx, func() {
		t.open.Delete(id)
		one.put(nil)
	})
	return metadata.AppendToOutgoingContext(ctx, tabHeader, id)
}

// of returns the tab of a request that is being served, or nil.
func (t *tabs) of(ctx context.Context) *tab {
	if !isLocal(ctx) {
		return nil
	}
	one, _ := t.open.Load(header(ctx, tabHeader))
	found, _ := one.(*tab)
	return found
}

// put has the tab give the room back when it is closed; nil closes it.
func (t *tab) put(room *share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room != nil {
		t.room = room
	} else {
		t.closed = true
	}
	if t.closed {
		t.room.giveBack()
	}
}
