package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A write that other servers overtake each time is refused as contended. It has written nothing.
func TestOvertakenWriteIsContended(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	e, all, stores := servers(t, 2)
	near, far := all[0], all[1]
	n := 0
	stores[1].BeforeWrites(func() {
		n++
		var last object.Revision
		for range history.Slack + 10 {
			resp, err := e.client.Put(t.Context(), "/other", "x")
			if err != nil {
				t.Fatal(err)
			}
			last = object.Revision(resp.Header.GetRevision())
		}
		stores[0].Saw(last)
		near.mustWrite(t, time.Now(), put(fmt.Sprintf("near%d", n), "x"))
	})
	_, err := far.write(t, time.Now(), put("far", "x"))
	if !errors.Is(err, object.ErrContended) || errors.Is(err, object.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if got, err := e.client.Get(contextFor(t), "/test/config/far"); err != nil || len(got.Kvs) > 0 {
		t.Errorf("got %v, %v, want nothing", got, err)
	}
}
