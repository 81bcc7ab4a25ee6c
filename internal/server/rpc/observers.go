package rpc

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Observers see all requests, such as metrics and traces do. They are outside of the interceptors, so
// they see the status that the client gets. All are optional.
type Observers struct {
	// Calls returns the observer of the calls of a method. It is called once for each method, so
	// the observer can look up what it needs.
	Calls func(info *grpc.StreamServerInfo) CallObserver

	Stats stats.Handler
}

// CallObserver observes the calls of one method.
type CallObserver interface {
	// Begin is called first. An error refuses the call, and nothing else is called.
	Begin() error

	// Received and Sent are called for each message of a stream, except those of watches.
	Received()
	Sent()

	// End is called last, with the status that the client gets.
	End(code codes.Code, took time.Duration)
}

// Options returns the observers that are options of a gRPC server.
func (o Observers) Options() []grpc.ServerOption {
	if o.Stats == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.StatsHandler(o.Stats)}
}

// observe returns the handler of a method behind its observer. The observer sees the messages only if
// messages is true: ten thousand watches would pay for it with each event.
func (o Observers) observe(handler grpc.StreamHandler, info *grpc.StreamServerInfo, messages bool) grpc.StreamHandler {
	if o.Calls == nil {
		return handler
	}
	observer := o.Calls(info)
	return func(implementation any, stream grpc.ServerStream) error {
		if err := observer.Begin(); err != nil {
			return err
		}
		began := time.Now()
		if messages {
			stream = observedStream{stream, observer}
		}
		err := handler(implementation, stream)
		observer.End(status.Code(err), time.Since(began))
		return err
	}
}

// observedStream is a stream whose messages the observer sees.
type observedStream struct {
	grpc.ServerStream
	observer CallObserver
}

// RecvMsg implements [grpc.ServerStream].
func (s observedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.observer.Received()
	}
	return err
}

// SendMsg implements [grpc.ServerStream].
func (s observedStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.observer.Sent()
	}
	return err
}
