package transport

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhoWaitsIsNotReadBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A connection that was never made fails at once when it is read.
		took := func(wait time.Duration, meanwhile func(net.Conn)) time.Duration {
			t.Helper()
			var given atomic.Int32
			var group sync.WaitGroup
			defer group.Wait()
			conn := delayRead(&net.TCPConn{}, func() { given.Add(1) }, wait)
			group.Go(func() { meanwhile(conn) })
			began := time.Now()
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("something was read")
			}
			took := time.Since(began)
			_ = conn.Close()
			if given.Load() == 0 {
				t.Error("its place is not given back")
			}
			return took
		}
		leave := func(conn net.Conn) { time.Sleep(time.Second); _ = conn.Close() }
		if d := took(3*time.Second, func(net.Conn) {}); d != 3*time.Second {
			t.Errorf("it was read after %v", d)
		}
		if d := took(0, leave); d != 0 {
			t.Errorf("one that need not wait was read after %v", d)
		}
		if d := took(3*time.Second, leave); d != time.Second {
			t.Errorf("one that was closed while it waited was read after %v", d)
		}
	})
}
