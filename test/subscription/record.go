package subscription

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
)

// Finish ends the requests of the stream, and waits until the server has ended it after its last
// watch. The contexts of all watches have ended, or the caller waits for the ends of the others. An
// intruder that the server has accepted, because the other watch had just ended, is stopped.
func (s *Stream) Finish(ctx context.Context) error {
	s.mu.Lock()
	starts := slices.Clone(s.starts)
	s.mu.Unlock()
	for _, w := range starts {
		if w.intruder {
			_, _ = w.await(ctx, 0) // a stop before its refusal would stop the other watch
		}
		if w.intruder || w.ctx.Err() != nil {
			s.stop(w) // it may not have been stopped yet
		}
	}
	s.sending.Lock()
	err := s.rpc.CloseSend()
	s.sending.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.Err(); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// Recording returns what the stream has received, under a name. The function returns what a watch
// asked for.
func (s *Stream) Recording(name string, interest func(*fanoutv1.WatchRequest) (*check.History, error)) (*check.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &check.Subscription{Subscriber: name, Over: errors.Is(s.err, io.EOF)}
	for _, w := range s.starts {
		h, err := interest(w.request)
		if err != nil {
			return nil, err
		}
		asked := begin(w.request)
		asked.Away = w.away() // messages are as old as the pause when they are read after it
		all.Starts = append(all.Starts, check.Start{
			ID: w.id, Interest: h, Asked: asked, Stopped: w.stopped, Late: w.request.GetMaxBatchDelay() != nil,
		})
	}
	for _, r := range s.responses {
		response := check.Response{More: r.response.GetMore()}
		for _, e := range r.response.GetEntries() {
			entry := check.Entry{IDs: e.GetWatchIds(), Refused: e.GetRefused() != nil, Ended: e.GetEnded() != nil}
			switch {
			case entry.Refused:
				entry.Status = reasonOf(status.ErrorProto(e.GetRefused()))
			case entry.Ended && e.GetEnded().GetCode() == 0:
				entry.Status = check.StatusOK
			case entry.Ended:
				entry.Status = reasonOf(status.ErrorProto(e.GetEnded()))
			default:
				m, err := recorded.Message(e.GetResponse())
				if err != nil {
					return nil, err
				}
				m.At = r.at
				entry.Message = &m
			}
			response.Entries = append(response.Entries, entry)
		}
		all.Responses = append(all.Responses, response)
	}
	return all, nil
}

// begin returns how a watch begins.
func begin(req *fanoutv1.WatchRequest) check.Stream {
	s := check.Stream{
		Begin:     check.FromNothing,
		NotBefore: object.Revision(req.GetConsistency().GetMinRevision()),
		Exact:     object.Revision(req.GetConsistency().GetExactRevision()),
	}
	switch {
	case req.GetAfter() != nil:
		s.Begin, s.Position = check.After, recorded.Position(req.GetAfter())
	case req.GetFromNow() != nil:
		s.Begin = check.FromNow
	}
	return s
}
