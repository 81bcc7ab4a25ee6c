package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
)

// overtaking returns a server, and lets another one record a write before each of its attempts. That write has
// an order that is further ahead by what ahead returns.
func overtaking(t *testing.T, ahead func(attempt int) int64) (*etcd, *recording) {
	t.Helper()
	e, all, stores := servers(t, 2)
	near, far := all[0], all[1]
	n := 0
	stores[1].BeforeWrites(func() {
		n++
		resp, err := e.client.Put(t.Context(), "/other", "x")
		if err != nil {
			t.Fatal(err)
		}
		stores[0].Saw(max(object.Revision(resp.Header.GetRevision()), stores[0].Highest()) + object.Revision(ahead(n)))
		near.mustWrite(t, time.Now(), put(fmt.Sprintf("near%d", n), "x"))
	})
	return e, far
}

// A server whose requests take so long that others come much further meanwhile writes all the same.
func TestDistantServerWrites(t *testing.T) {
	for _, further := range []int64{history.Slack + 1, 10 * history.Slack} {
		_, far := overtaking(t, func(int) int64 { return further })
		far.mustWrite(t, time.Now(), put("far", "x"))
	}
}

// A write that other servers overtake each time is refused as contended. It has written nothing.
func TestOvertakenWriteIsContended(t *testing.T) {
	e, far := overtaking(t, func(attempt int) int64 { return history.Slack << (attempt + 1) })
	_, err := far.write(t, time.Now(), put("far", "x"))
	if !errors.Is(err, object.ErrContended) || errors.Is(err, object.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if got, err := e.client.Get(contextFor(t), "/test/config/far"); err != nil || len(got.Kvs) > 0 {
		t.Errorf("got %v, %v, want nothing", got, err)
	}
}
