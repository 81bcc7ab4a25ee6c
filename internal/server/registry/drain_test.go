package registry

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/frames"
)

func TestWatchesEndEvenlyOverThePeriod(t *testing.T) {
	const count, period = 1000, 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(Config{Resources: resources})
		began := time.Now()
		tenths := map[time.Duration]int{}
		last := -1
		// The watches stay registered, as if their clients did not read. That must not delay
		// the others.
		addWatches(t, r, count, func(i int) {
			tenths[time.Since(began)*10/(period/2)]++ // a thousand watches take half the period
			if i != last+1 {
				t.Errorf("watch %d ended after watch %d", i, last)
			}
			last = i
		})
		r.Drain(t.Context(), period)
		for tenth := range time.Duration(10) {
			// A watch at the edge may count for either tenth.
			if n := tenths[tenth]; n < count/10-1 || n > count/10+1 {
				t.Errorf("got %d of %d watches in tenth %d, want a tenth", n, count, tenth)
			}
		}
		if r.Register(newRPC("a", 0)) == nil {
			t.Error("got no error for a new watch while the server drains")
		}
	})
}

// The watches of a connection end one after the other, after their connection got a GOAWAY.
// Watches within the process keep their order.
func TestConnectionsEndOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make([]writtenConn, 3)
		var conns []*frames.Conn
		for i := range written {
			conns = append(conns, frames.NewConn(&written[i], nil))
		}
		r := newRegistry(Config{Resources: resources})
		var order []int
		for i, conn := range []*frames.Conn{conns[2], nil, conns[0], conns[2], conns[1], nil, conns[0], conns[2]} {
			err := r.Register(onConn(conn, func(error) {
				order = append(order, i)
				for n, other := range conns {
					if _, err := other.Write(nil); err != nil {
						t.Error(err)
					}
					if other == conn && written[n].bytes == 0 {
						t.Errorf("watch %d ended before the GOAWAY of its connection", i)
					}
				}
			}))
			if err != nil {
				t.Fatal(err)
			}
		}
		r.Drain(t.Context(), time.Minute)
		if want := []int{0, 3, 7, 1, 2, 6, 4, 5}; !slices.Equal(order, want) {
			t.Errorf("got watches ended in the order %v, want %v", order, want)
		}
	})
}

// A client whose watch is refused tries again on another connection.
func TestRefusedWatchGetsGoAway(t *testing.T) {
	r := newRegistry(Config{Resources: resources})
	r.Drain(t.Context(), time.Minute)
	var written writtenConn
	conn := frames.NewConn(&written, nil)
	if err := r.Register(onConn(conn, nil)); !errors.Is(err, apierr.ErrDraining) {
		t.Errorf("got %v for a new watch, want %v", err, apierr.ErrDraining)
	}
	if _, err := conn.Write(nil); err != nil || written.bytes == 0 {
		t.Errorf("got %d bytes, %v, want a GOAWAY before the next write", written.bytes, err)
	}
}

// writtenConn counts the bytes that are written.
type writtenConn struct {
	net.Conn
	bytes int
}

// Write implements net.Conn.
func (c *writtenConn) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return len(b), nil
}

// A drain of a few watches takes hardly any time.
func TestDrainingFewTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for count, most := range map[int]time.Duration{0: 0, 1: drainGap, 10: 10 * drainGap} {
			r := newRegistry(Config{Resources: resources})
			ended := 0
			addWatches(t, r, count, func(int) { ended++ })
			began := time.Now()
			r.Drain(t.Context(), time.Hour)
			if took := time.Since(began); took > most || ended != count {
				t.Errorf("%d of %d watches ended in %v, want all within %v", ended, count, took, most)
			}
		}
	})
}

// A drain ends before its period when all watches have ended for other reasons, and when its
// context ends.
func TestDrainingEndsEarly(t *testing.T) {
	for name, stop := range map[string]func(leave []func(), cancel func()){
		"all have left": func(leave []func(), _ func()) {
			for _, l := range leave {
				l()
			}
		},
		"context ends": func(_ []func(), cancel func()) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRegistry(Config{Resources: resources})
			var ended atomic.Int64
			var leave []func()
			for _, e := range addWatches(t, r, 1000, func(int) { ended.Add(1) }) {
				leave = append(leave, func() { r.Unregister(e) })
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Second, func() { stop(leave, cancel) })
			began := time.Now()
			r.Drain(ctx, 10*time.Second)
			if took := time.Since(began); took != time.Second || ended.Load() == 1000 {
				t.Errorf("%s: the drain took %v and ended %d watches, want 1s and not all of them", name, took, ended.Load())
			}
		})
	}
}
