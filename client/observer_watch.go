package client

import (
	"errors"
	"time"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// observeMessage calls the hooks for a message, before the watcher receives it.
func (w *watcher) observeMessage(m *message) {
	o := &w.client.observer
	if o.WatchOpened != nil && !w.answered {
		observe(w.client, o.WatchOpened, WatchOpened{
			Resource: w.req.GetResource(), Server: w.server, Resumed: w.at.Revision > 0, Shared: w.stream.shared(),
		})
	}
	synced := m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED
	if o.WatchReceived != nil && (synced || len(m.GetEvents()) > 0) {
		observe(w.client, o.WatchReceived, WatchReceived{
			Resource: w.req.GetResource(), Events: len(m.GetEvents()), CatchUp: catchUpName(w.catchUp), Synced: synced,
		})
	}
}

// catchUpName returns the name of a catch-up for hooks.
func catchUpName(c fanoutv1.WatchResponse_CatchUp) string {
	switch c {
	case fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED:
		return ""
	case fanoutv1.WatchResponse_CATCH_UP_RESET:
		return "reset"
	case fanoutv1.WatchResponse_CATCH_UP_DELTA:
		return "delta"
	}
	return "replay"
}

// observeInterruption calls the hook for the loss of a stream.
func (w *watcher) observeInterruption(err error, delay time.Duration) {
	code, reason := codeOf(err)
	observe(w.client, w.client.observer.WatchInterrupted, WatchInterrupted{Resource: w.req.GetResource(), Code: code, Reason: reason, Delay: delay})
}

// observeEnd calls the hook for the end of the watch.
func (w *watcher) observeEnd(err error) {
	code, reason := codeOf(err)
	observe(w.client, w.client.observer.WatchEnded, WatchEnded{Resource: w.req.GetResource(), Code: code, Reason: reason})
}

// codeOf returns the code and the reason of the end of a stream.
func codeOf(err error) (codes.Code, Reason) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code, e.Reason
	}
	return codes.Unavailable, ""
}
