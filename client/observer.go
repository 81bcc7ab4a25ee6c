package client

import (
	"time"

	"google.golang.org/grpc/codes"
)

// Observer has hooks for metrics. Any of them may be nil. A hook is called when something has happened, by
// the goroutine in which it has, or by one that this goroutine waits for. Hooks must return soon, and any
// number of goroutines may call one at once.
//
// A hook that ends its goroutine with runtime.Goexit changes nothing. A panic ends the program.
type Observer struct {
	// Request is called when a request has ended, with all its attempts.
	Request func(RequestEnded)
	// WatchOpened is called when the first message of a stream of a watch has arrived.
	WatchOpened func(WatchOpened)
	// WatchReceived is called for a message with events, and for the end of a catch-up.
	WatchReceived func(WatchReceived)
	// WatchInterrupted is called when a watch has lost its stream: not at a time limit, and not when
	// the watch moves to or from a shared stream.
	WatchInterrupted func(WatchInterrupted)
	// WatchEnded is called when a watch has ended with an error that no retry can help.
	WatchEnded func(WatchEnded)
	// HandlerFailed is called when a handler of an informer has rejected a change.
	HandlerFailed func(HandlerFailed)
}

// RequestEnded is a request that has ended. A list is one request for each page.
type RequestEnded struct {
	Method   string // the name in the protocol, such as "Get"
	Resource string // empty: the request is not about one
	Code     codes.Code
	Duration time.Duration // with all attempts, and the pauses between them
	Attempts int           // how often the request was sent; 0: it could not be
}

// WatchOpened is a stream of a watch whose first message has arrived.
type WatchOpened struct {
	Resource string
	Server   string // its address
	Resumed  bool   // the watch continues at a position
	Shared   bool   // other watches may use the same stream
}

// WatchReceived is a message of a watch.
type WatchReceived struct {
	Resource string
	Events   int
	CatchUp  string // "reset", "delta", "replay"; empty: the message is live
	Synced   bool   // the catch-up has ended
}

// WatchInterrupted is a watch that has lost its stream.
type WatchInterrupted struct {
	Resource string
	Code     codes.Code    // Unavailable if the stream has ended without an error, or was silent
	Reason   Reason        // empty if the error has none
	Delay    time.Duration // until the watch resumes
}

// WatchEnded is a watch that has ended with an error.
type WatchEnded struct {
	Resource string
	Code     codes.Code
	Reason   Reason
}

// HandlerFailed is a change that a handler has rejected.
type HandlerFailed struct {
	Resource string
	Key      string
	Err      error
	Delay    time.Duration // until the handler is called again
}

// WithObserver calls hooks, for metrics. Informers that share a watch have its events in common. For traces,
// add the stats handler of OpenTelemetry with [WithDialOptions].
func WithObserver(o Observer) Option { return func(s *settings) { s.observer = o } }

// observe calls a hook, unless it is nil. The hook cannot end the goroutine of a watch or of a handler.
func observe[E any](c *Client, hook func(E), event E) {
	if hook == nil {
		return
	}
	if _, err := callInGoroutine(func() (struct{}, error) { hook(event); return struct{}{}, nil }); err != nil {
		c.log.Warn("hook failed", "error", err)
	}
}
