package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A delayed connection is not read before its delay has passed, or it is closed.
func TestDelayedConnectionIsNotReadEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A Read of this connection, which is not connected, fails at once.
		took := func(wait time.Duration, meanwhile func(net.Conn)) time.Duration {
			t.Helper()
			var released atomic.Int32
			var group sync.WaitGroup
			defer group.Wait()
			conn := delayRead(&net.TCPConn{}, func() { released.Add(1) }, wait)
			group.Go(func() { meanwhile(conn) })
			began := time.Now()
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("got no error from Read")
			}
			took := time.Since(began)
			_ = conn.Close()
			if released.Load() == 0 {
				t.Error("the place of the connection was not released")
			}
			return took
		}
		closeLater := func(conn net.Conn) { time.Sleep(time.Second); _ = conn.Close() }
		if d := took(3*time.Second, func(net.Conn) {}); d != 3*time.Second {
			t.Errorf("got a read after %v, want 3s", d)
		}
		if d := took(0, closeLater); d != 0 {
			t.Errorf("without a delay: got a read after %v, want 0s", d)
		}
		if d := took(3*time.Second, closeLater); d != time.Second {
			t.Errorf("closed after a second: got a read after %v, want 1s", d)
		}
	})
}
