package systemd_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/internal/systemd"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a socket on which systemd receives reports.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func listen(t *testing.T) manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return manager{t, conn}
}

// next returns the next report.
func (m manager) next() string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(poll.Patience)); err != nil {
		m.t.Fatal(err)
	}
	buffer := make([]byte, 1024)
	n, err := m.conn.Read(buffer)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(buffer[:n])
}

func (m manager) want(report string) {
	m.t.Helper()
	if got := m.next(); got != report {
		m.t.Fatalf("got report %q, want %q", got, report)
	}
}

// notify reports the service until stop is called.
func notify(t *testing.T, s systemd.Service) (stop func()) {
	t.Helper()
	s.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		systemd.Notify(ctx, s)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func alive(context.Context, time.Duration) error { return nil }

// A server is ready when it serves requests, not when its process runs.
func TestReadyAfterLoading(t *testing.T) {
	m := listen(t)
	var loaded atomic.Bool
	stop := notify(t, systemd.Service{Alive: alive, Unready: func() string {
		if loaded.Load() {
			return ""
		}
		return "the resource config is not loaded"
	}})
	m.want("STATUS=starting")
	m.want("STATUS=not ready: the resource config is not loaded")
	loaded.Store(true)
	m.want("READY=1\nSTATUS=serving")
	stop()
	m.want("STOPPING=1")
}

// A start that waits for other servers may take any time, and its status says for whom it waits.
func TestWaitExtendsTheStart(t *testing.T) {
	m := listen(t)
	var last atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		systemd.Wait(ctx, func() string {
			if last.Load() {
				return "waiting for node-3"
			}
			return "waiting for node-2, node-3"
		}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	}()
	m.want("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for node-2, node-3")
	last.Store(true)
	m.want("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=waiting for node-3")
	cancel()
	<-done
}

// The watchdog hears nothing of a server that is stuck.
func TestWatchdogIsNotifiedOnlyWhileTheServerIsAlive(t *testing.T) {
	m := listen(t)
	t.Setenv("WATCHDOG_USEC", "3000")
	stuck := errors.New("stuck")
	answers, late := make(chan error), make(chan struct{}, 1)
	var limits atomic.Int64
	stop := notify(t, systemd.Service{Unready: func() string { return "" }, Alive: func(ctx context.Context, limit time.Duration) error {
		limits.Store(int64(limit))
		select {
		case err := <-answers:
			return err
		case <-ctx.Done():
			select {
			case late <- struct{}{}:
			default:
			}
			return ctx.Err() // the server does not answer in time
		}
	}})
	m.want("STATUS=starting")
	m.want("READY=1\nSTATUS=serving")
	answer := func(err error) {
		select {
		case answers <- err:
		case <-t.Context().Done():
		}
	}
	answer(nil)
	m.want("WATCHDOG=1")
	select {
	case <-late:
	case <-time.After(poll.Patience):
		t.Fatal("a check of a stuck server does not end")
	}
	for range 5 {
		answer(stuck)
	}
	stop()
	m.want("STOPPING=1") // there is no report of the stuck server before it
	if got := time.Duration(limits.Load()); got != 3*time.Millisecond {
		t.Errorf("got limit %v, want the watchdog's 3ms", got)
	}
}

// A server that stops before it has loaded was never ready.
func TestStopWhileLoading(t *testing.T) {
	m := listen(t)
	stop := notify(t, systemd.Service{Alive: alive, Unready: func() string { return "etcd cannot be reached" }})
	m.want("STATUS=starting")
	m.want("STATUS=not ready: etcd cannot be reached")
	stop()
	m.want("STOPPING=1")
}

func TestNothingIsReportedWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	systemd.Notify(t.Context(), systemd.Service{}) // returns
}
