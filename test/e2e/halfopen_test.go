package e2e

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// When the way between the two is gone without a word, both notice: the subscriber
// because the bookmarks it asked for do not come, which never happens while the way is
// there; the server because its pings are not answered. That takes the server half a
// minute, in which the subscriber has long noticed.
func TestHalfOpenConnectionIsNoticedByBothSides(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
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
	after := put(t, s.conn, "key", []byte("the others go on"))
	// The subscriber hears nothing and would leave. This one stays, because only
	// the server shall end what is left of the connection.
	heard := time.Now()
	for {
		m, err := r.receive(t)
		if status.Code(err) == codes.Unavailable {
			break
		}
		if err != nil {
			t.Fatalf("the server keeps the connection: %v", err)
		}
		if int64(m.Position.Revision) >= after {
			t.Fatalf("through a frozen connection came %+v", m)
		}
		heard = time.Now() // of what was on its way
	}
	silence := time.Since(heard)
	t.Logf("when the server noticed there had been silence for %v", silence.Round(time.Second))
	if silence < 10*interval {
		t.Errorf("when the server ended the stream there had been silence for %v only, the subscriber could not have noticed first", silence)
	}
}
