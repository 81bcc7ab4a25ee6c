package store

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// timedLog is a [slog.Handler] that keeps each line with the time since the start.
type timedLog struct {
	slog.Handler
	text  *bytes.Buffer
	start time.Time
	times []time.Duration
}

func newTimedLog() *timedLog {
	text := &bytes.Buffer{}
	return &timedLog{Handler: slog.NewTextHandler(text, nil), text: text, start: time.Now()}
}

func (l *timedLog) Handle(ctx context.Context, r slog.Record) error {
	l.times = append(l.times, time.Since(l.start).Round(100*time.Millisecond))
	return l.Handler.Handle(ctx, r)
}

// The first line about an outage comes within two seconds, and each one names the endpoint
// and the cause. The pauses between the lines grow to a minute.
func TestOutageIsReportedAgainAfterGrowingPauses(t *testing.T) {
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		dial  func(context.Context, string) (net.Conn, error)
		cause string // in each line
	}{
		"refused": {func(context.Context, string) (net.Conn, error) { return nil, refused }, refused.Error()},
		"no answer": {func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newTimedLog()
				client, err := clientv3.New(clientv3.Config{
					Endpoints: []string{"etcd.test:2379"}, Logger: zap.NewNop(),
					DialOptions: []grpc.DialOption{grpc.WithContextDialer(c.dial)},
				})
				if err != nil {
					t.Fatal(err)
				}
				s := &Store{client: client, log: slog.New(log)}
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
				defer stop()
				s.monitor(ctx)
				if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				for line := range strings.Lines(log.text.String()) {
					for _, want := range []string{"cannot reach etcd", "etcd.test:2379", c.cause} {
						if !strings.Contains(line, want) {
							t.Errorf("got line %q, want it to contain %q", line, want)
						}
					}
				}
				if len(log.times) == 0 || log.times[0] > 2*time.Second {
					t.Fatalf("got lines after %v, want the first within 2s", log.times)
				}
				var pauses []time.Duration
				for i := range log.times[1:] {
					pauses = append(pauses, (log.times[i+1] - log.times[i]).Round(time.Second))
				}
				want := []time.Duration{2, 4, 8, 16, 32, 60, 60, 60}
				for i := range want {
					want[i] *= time.Second
				}
				if !slices.Equal(pauses, want) {
					t.Errorf("got pauses %v between the lines, want %v", pauses, want)
				}
				if !s.Unreachable() {
					t.Error("the store is not reported as unreachable")
				}
			})
		})
	}
}
