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

// TestHalfOpenConnectionIsNoticedByBothSides freezes the connection without closing it,
// and checks that both sides notice. The subscriber misses the bookmarks that it asked
// for, which never happens on a working connection. The server gets no answer to its
// pings. The server needs half a minute, and the subscriber notices much earlier.
func TestHalfOpenConnectionIsNoticedByBothSides(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	s := startServer(t, embedded(t, loopback.FreeAddress(t))...)
	toServer := newLink(t, s.address)
	const interval = 200 * time.Millisecond
	r := newRecorderOf(t, dial(t, toServer.address), watchOptions{bookmarks: interval})
	r.open(t, check.FromNothing)
	r.until(t, object.Synced)
	for range 3 {
		r.until(t, object.Bookmark) // a working connection is never silent for long
	}

	toServer.freeze()
	after := put(t, s.conn, "key", []byte("the others go on"))
	// A subscriber would leave after this silence. This one stays, so that only the
	// server ends the connection.
	heard := time.Now()
	for {
		m, err := r.receive(t)
		if status.Code(err) == codes.Unavailable {
			break
		}
		if err != nil {
			t.Fatalf("the server has not closed the connection: %v", err)
		}
		if int64(m.Position.Revision) >= after {
			t.Fatalf("got %+v through a frozen connection", m)
		}
		heard = time.Now() // bytes that were in transit
	}
	silence := time.Since(heard)
	t.Logf("the server noticed after %v of silence", silence.Round(time.Second))
	if silence < 10*interval {
		t.Errorf("the server ended the stream after only %v of silence, before the subscriber could have noticed", silence)
	}
}
