package server

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhoConnectsTooOftenWaitsForItsTurn(t *testing.T) {
	a := newArrivals(2, 3)
	now := time.Now()
	often, seldom := client{address: "1"}, client{address: "2"}
	var got []time.Duration
	for {
		wait, ok := a.next(often, now)
		if !ok {
			break
		}
		got = append(got, wait)
	}
	// Three at once, and then two for each second that somebody may wait.
	if want := 3 + int(2*arrivalPatience/time.Second); len(got) != want || got[2] != 0 || got[3] != time.Second/2 || got[want-1] != arrivalPatience {
		t.Errorf("connections wait %v, want three not at all and the others up to %v", got, arrivalPatience)
	}
	if wait, ok := a.next(seldom, now); !ok || wait != 0 {
		t.Errorf("another host waits %v, %v", wait, ok)
	}
	// Who was turned away has used up nothing.
	if wait, ok := a.next(often, now.Add(time.Second/2)); !ok || wait != arrivalPatience {
		t.Errorf("half a second later one waits %v, %v, want %v", wait, ok, arrivalPatience)
	}
	if wait, ok := (*arrivals)(nil).next(often, now); !ok || wait != 0 {
		t.Errorf("without a limit one waits %v, %v", wait, ok)
	}
}

func TestWhoWaitsIsNotReadBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A connection that was never made fails at once when it is read.
		took := func(wait time.Duration, meanwhile func(net.Conn)) time.Duration {
			t.Helper()
			var given atomic.Int32
			var group sync.WaitGroup
			defer group.Wait()
			conn := limited(&net.TCPConn{}, func() { given.Add(1) }, wait)
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
