package rpc

import (
	"context"
	"log/slog"
	"testing"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// answeredStream is a stream that receives one request, and to which an answer is sent.
type answeredStream struct{ oneRequest }

func (answeredStream) SendMsg(any) error { return nil }

// A unary call costs no allocations for what is off: the log line, the audit log, limits and rights.
// What is left are the stream, its function for the handler, the timer of a request that has not
// arrived, and the request itself.
func TestUnaryCallsAllocateLittle(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	answer := &fanoutv1.GetResponse{}
	m := &unaryMethod{
		Interceptors: &Interceptors{
			Log: log, Rights: &Rights{}, Limits: quota.New(quota.Limits{}, log), Slow: NewSlowLog(0, log), Denials: NewDenials(), Stopping: t.Context(),
		},
		info: &grpc.StreamServerInfo{FullMethod: fanoutv1.FanoutService_Get_FullMethodName},
		handle: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			req := &fanoutv1.GetRequest{}
			return answer, decode(req)
		},
	}
	var stream grpc.ServerStream = answeredStream{oneRequest{ctx: WithStreamContext(t.Context())}}
	const most = 6
	if n := testing.AllocsPerRun(100, func() {
		if err := m.serve(nil, stream); err != nil {
			t.Fatal(err)
		}
	}); n > most {
		t.Errorf("got %v allocations, want at most %v", n, most)
	}
}
