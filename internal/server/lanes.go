package server

import (
	"context"
	"runtime"
	"sync"

	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// lanes are the lanes of the connections that have watches.
type lanes struct {
	workers *sendqueue.Workers // one for each processor

	mu sync.Mutex
	of map[*peer.Peer]*countedLane // guarded by mu; gRPC has one peer for each connection
}

type countedLane struct {
	*sendqueue.Queue
	of      *peer.Peer
	watches int // guarded by lanes.mu
}

func newLanes() *lanes {
	return &lanes{workers: sendqueue.Start(runtime.GOMAXPROCS(0)), of: map[*peer.Peer]*countedLane{}}
}

// enter returns the lane of the connection that a watch comes over. It has to be left.
func (l *lanes) enter(ctx context.Context) *countedLane {
	connection, _ := peer.FromContext(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	counted := l.of[connection]
	if counted == nil {
		counted = &countedLane{Queue: l.workers.NewQueue(), of: connection}
		l.of[connection] = counted
	}
	counted.watches++
	return counted
}

// leave leaves a lane.
func (l *lanes) leave(counted *countedLane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if counted.watches--; counted.watches == 0 {
		delete(l.of, counted.of)
	}
}
