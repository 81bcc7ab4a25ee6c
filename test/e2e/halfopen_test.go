package e2e

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/check"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// When the way between the two is gone without a word, both notice: the subscriber
// because the bookmarks it asked for do not come, the server because its pings are
// not answered. That takes the server half a minute, in which this test does
// nothing.
func TestHalfOpenConnectionIsNoticedByBothSides(t *testing.T) {
	t.Parallel()
	s := startServer(t, embedded(t, loopback.FreeAddress(t))...)
	way := newLink(t, s.address)
	const interval = 200 * time.Millisecond
	r := newRecorderOf(t, dial(t, way.address), wish{bookmarks: interval})
	r.open(t, check.FromNothing)
	r.until(t, object.Synced)
	for range 3 {
		r.until(t, object.Bookmark) // of which silence is the opposite
	}

	way.freeze()
	// The subscriber hears nothing and would leave. This one stays, because only
	// the server shall end what is left of the connection.
	begun := time.Now()
	for {
		m, err := r.receive(t)
		if status.Code(err) == codes.Unavailable {
			break
		}
		if err != nil {
			t.Fatalf("the server keeps the connection: %v", err)
		}
		if late := time.Since(begun); late > 10*interval {
			t.Fatalf("%v after the connection was frozen came %+v", late, m)
		}
	}
	t.Logf("the server noticed after %v", time.Since(begun).Round(time.Second))
	put(t, s.conn, "key", []byte("the others go on"))
}
