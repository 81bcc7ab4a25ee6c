package rpc

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// OnDone reports why a request has ended, even if gRPC's context calls its functions before it
// ends the contexts that are derived from it. A request that its client has cancelled then
// already has the status CANCELLED.
func TestOnDoneReportsTheReason(t *testing.T) {
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		for range 2000 { // more children, so that ending them takes time
			_, release := context.WithCancel(ctx)
			defer release()
		}
		request := WithStreamContext(ctx)
		why, at := make(chan error, 1), make(chan error, 1)
		go cancel()
		OnDone(request, func(err error) {
			at <- apierr.Status(request, err)
			why <- err
		})
		if err := <-at; status.Code(err) != codes.Canceled {
			t.Fatalf("got status %v, want code %v", err, codes.Canceled)
		}
		if err := <-why; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
	}
	request := WithStreamContext(t.Context())
	CutOff(request)
	why := make(chan error, 1)
	OnDone(request, func(err error) { why <- err })
	if err := <-why; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v after CutOff, want %v", err, context.DeadlineExceeded)
	}
}
