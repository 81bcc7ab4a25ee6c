package main

import (
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// queuedStream reads all that it can get, whatever its reader does. When nothing comes, it invents bookmarks for a
// while.
type queuedStream struct {
	grpc.ClientStream
	patience time.Duration // how long; 0: no bookmarks
	begin    sync.Once
	ready    chan struct{} // capacity 1

	mu    sync.Mutex
	queue []proto.Message // guarded by mu
	err   error           // guarded by mu

	last    map[uint64]*fanoutv1.Position // by the id of the watch, or 0
	arrived time.Time                     // when the last message came
}

// inventInterval is the time between the bookmarks that are invented.
const inventInterval = 100 * time.Millisecond

func newQueuedStream(s grpc.ClientStream, patience time.Duration) *queuedStream {
	return &queuedStream{ClientStream: s, patience: patience, ready: make(chan struct{}, 1), last: map[uint64]*fanoutv1.Position{}}
}

// read reads to the end of the stream.
func (s *queuedStream) read(like proto.Message) {
	for {
		m := like.ProtoReflect().New().Interface()
		err := s.ClientStream.RecvMsg(m)
		s.mu.Lock()
		if err == nil {
			s.queue = append(s.queue, m)
		} else {
			s.err = err
		}
		s.mu.Unlock()
		select {
		case s.ready <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// RecvMsg implements grpc.ClientStream.
func (s *queuedStream) RecvMsg(into any) error {
	m := into.(proto.Message)
	s.begin.Do(func() { go s.read(m) })
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			proto.Merge(m, s.queue[0])
			s.queue = s.queue[1:]
			s.mu.Unlock()
			s.arrived = time.Now()
			s.remember(m)
			return nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return err
		}
		var timeout <-chan time.Time
		if len(s.last) > 0 && time.Since(s.arrived) < s.patience {
			timeout = time.After(inventInterval)
		}
		select {
		case <-s.ready:
		case <-timeout:
			s.invent(m)
			return nil
		}
	}
}

// remember remembers the positions of a message.
func (s *queuedStream) remember(m proto.Message) {
	switch m := m.(type) {
	case *fanoutv1.WatchResponse:
		s.last[0] = m.GetPosition()
	case *fanoutv1.SubscribeResponse:
		for _, e := range m.GetEntries() {
			for _, id := range e.GetWatchIds() {
				if at := e.GetResponse().GetPosition(); at != nil {
					s.last[id] = at
				}
			}
		}
	}
}

// invent fills a message with bookmarks.
func (s *queuedStream) invent(m proto.Message) {
	switch m := m.(type) {
	case *fanoutv1.WatchResponse:
		m.Kind, m.Position = fanoutv1.WatchResponse_KIND_BOOKMARK, s.last[0]
	case *fanoutv1.SubscribeResponse:
		for id, at := range s.last {
			m.Entries = append(m.Entries, &fanoutv1.SubscribeResponse_Entry{
				WatchIds: []uint64{id}, Content: &fanoutv1.SubscribeResponse_Entry_Response{
					Response: &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_BOOKMARK, Position: at},
				},
			})
		}
	}
}
