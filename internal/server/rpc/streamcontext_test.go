package rpc

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Who waits for the end of a request is told why it has ended, also where the context of
// gRPC tells of its end before it tells those that are derived from it.
func TestTheEndOfARequestHasAReason(t *testing.T) {
	l := quota.New(quota.Limits{}, slog.New(slog.DiscardHandler))
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		for range 2000 { // are told as well, which takes time
			_, forget := context.WithCancel(ctx)
			defer forget()
		}
		request, err := WithStreamContext(l, ctx)
		if err != nil {
			t.Fatal(err)
		}
		why := make(chan error, 1)
		go cancel()
		OnDone(request, func(err error) { why <- err })
		if err := <-why; !errors.Is(err, context.Canceled) {
			t.Fatalf("it has ended with %v", err)
		}
	}
	request, err := WithStreamContext(l, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	CutOff(request)
	why := make(chan error, 1)
	OnDone(request, func(err error) { why <- err })
	if err := <-why; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it was cut off with %v", err)
	}
}
