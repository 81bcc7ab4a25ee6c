package main

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// impatientStream ends after a silence.
type impatientStream struct {
	grpc.ClientStream
	cancel       context.CancelFunc // ends the stream
	first, later float64            // the longest silence in bookmark intervals, at first and later; 0: no limit
	interval     atomic.Int64       // of the bookmarks of the latest watch
	received     bool
}

// SendMsg implements grpc.ClientStream.
func (s *impatientStream) SendMsg(m any) error {
	request, ok := m.(*fanoutv1.WatchRequest)
	if start, isSubscribe := m.(*fanoutv1.SubscribeRequest); isSubscribe {
		request, ok = start.GetStart().GetRequest(), start.GetStart() != nil
	}
	if ok {
		s.interval.Store(int64(request.GetBookmarkInterval().AsDuration()))
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (s *impatientStream) RecvMsg(m any) error {
	limit := s.first
	if s.received {
		limit = s.later
	}
	if limit = limit * float64(s.interval.Load()); limit > 0 {
		silence := time.AfterFunc(time.Duration(limit), s.cancel)
		defer silence.Stop()
	}
	err := s.ClientStream.RecvMsg(m)
	s.received = true
	if status.Code(err) == codes.Canceled {
		return status.Error(codes.Unavailable, "the client is impatient")
	}
	return err
}
