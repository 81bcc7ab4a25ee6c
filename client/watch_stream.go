package client

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// watchStream is one stream of a watch, as its watcher sees it. It must hold no more than a
// bounded amount of messages that the watcher does not receive, and must not let them delay
// other watches.
type watchStream interface {
	// Recv returns the next message, or why there is none.
	Recv() (*fanoutv1.WatchResponse, error)
	// acceptsReports reports whether the server accepts reports for this stream. It may be
	// called once Recv has returned a message.
	acceptsReports() bool
	// report reports how far the watch was applied.
	report(ctx context.Context, p progress) error
}

// openWatch opens a stream for a watcher. Nothing else decides what carries the messages.
// Today each watch has a gRPC stream of its own. The flow control of that stream stops the
// server if the watcher does not receive, and the server resumes from its position, so a
// watch needs no buffer.
func (c *Client) openWatch(ctx context.Context, choice *serverChoice, req *fanoutv1.WatchRequest) (watchStream, error) {
	stream, err := c.reads.Watch(withServerChoice(ctx, choice), req)
	if err != nil {
		return nil, err
	}
	return &ownStream{stream, c, choice}, nil
}

// ownStream is a stream that carries one watch.
type ownStream struct {
	grpc.ServerStreamingClient[fanoutv1.WatchResponse]
	client *Client
	choice *serverChoice
}

// watchHeader is the key of the response header with the token of the watch, which reports need.
const watchHeader = "fanout-watch"

// id returns the name of the watch for reports, or "".
func (s *ownStream) id() string {
	header, err := s.Header()
	if values := header.Get(watchHeader); err == nil && len(values) == 1 {
		return values[0]
	}
	return ""
}

func (s *ownStream) acceptsReports() bool { return s.id() != "" }

// reportTimeout is how long the client waits for the answer to a report.
const reportTimeout = 10 * time.Second

func (s *ownStream) report(ctx context.Context, p progress) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	req := &fanoutv1.ReportRequest{Watch: s.id()}
	if p.applied.Revision > 0 {
		req.Applied = &fanoutv1.Position{Epoch: p.applied.Epoch, Revision: p.applied.Revision}
	}
	if p.err != nil {
		code := grpcstatus.Code(p.err)
		if code == codes.OK || code > codes.Unauthenticated {
			code = codes.Unknown
		}
		req.Error = &status.Status{Code: int32(code), Message: messageOfError(p.err)}
		req.Attempted = &fanoutv1.Position{Epoch: p.attempted.Epoch, Revision: p.attempted.Revision}
	}
	// Only the server that has the watch knows it.
	_, err := s.client.reads.Report(withServerChoice(ctx, &serverChoice{only: s.choice.server()}), req)
	return err
}
