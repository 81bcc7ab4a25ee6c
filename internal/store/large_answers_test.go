package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/grpcproxy"
)

const megabyte = 1_000_000

// large is a value of a megabyte.
var large = string(bytes.Repeat([]byte("x"), megabyte))

// behindProxy returns a collection that reaches an etcd through a proxy, and one that bypasses it.
func behindProxy(t *testing.T, maxSend int) (c, direct *store.Collection, proxy *grpcproxy.Proxy) {
	t.Helper()
	address := etcdproc.Start(t, "http")
	proxy = grpcproxy.Start(t, grpcproxy.Config{Target: address, MaxSend: maxSend})
	c = dialStore(t, store.ExternalConfig{Endpoints: []string{proxy.Address}})
	direct = dialStore(t, store.ExternalConfig{Endpoints: []string{address}})
	epochOf(t, c)
	epochOf(t, direct)
	return c, direct, proxy
}

// errEnough ends a watch of a test.
var errEnough = errors.New("enough")

// watchScope reads a watch of a scope until it has delivered the revision, and returns the
// number of changes in each update.
func watchScope(t *testing.T, c *store.Collection, scope object.Scope, after, until object.Revision) (sizes []int) {
	t.Helper()
	err := eachUpdate(t, c, scope, after, func(u object.Update) error {
		if len(u.Records) > 0 {
			sizes = append(sizes, len(u.Records))
		}
		if u.Through >= until {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("watch: got %v after updates of %v changes", err, sizes)
	}
	return sizes
}

// A watch delivers changes that exceed the size limit of a proxy together. It makes etcd
// read them at most twice.
func TestWatchDeliversMoreThanAMessageHolds(t *testing.T) {
	c, direct, proxy := behindProxy(t, 8<<20)
	before := commit(t, direct, put("k", "v"))
	var last object.Revision
	const changes = 20
	for range changes {
		last = commit(t, direct, put("k", large))
	}
	for name, read := range map[string]func(t *testing.T) int{
		"resource": func(t *testing.T) (n int) {
			for stream := watch(t, c, before); n < changes; {
				n += len(next(t, stream).Records)
			}
			return n
		},
		"scope": func(t *testing.T) (n int) {
			for _, size := range watchScope(t, c, object.Scope{}, before, last) {
				n += size
			}
			return n
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := proxy.Requests("Watch")
			if n := read(t); n != changes {
				t.Errorf("got %d changes, want %d", n, changes)
			}
			if n := proxy.Requests("Watch") - asked; n > 2 {
				t.Errorf("etcd read the changes %d times, want at most 2", n)
			}
		})
	}
}

// A change that alone is too large for a proxy ends the watch with an error that names the
// reason. The reader then lists.
func TestWatchEndsAtAChangeThatIsTooLarge(t *testing.T) {
	c, direct, proxy := behindProxy(t, 512<<10)
	before := commit(t, direct, put("k", "v"))
	commit(t, direct, put("k", large))
	for name, read := range map[string]func(t *testing.T) error{
		"resource": func(t *testing.T) error {
			_, err := watch(t, c, before).Next(contextFor(t))
			return err
		},
		"scope": func(t *testing.T) error {
			return eachUpdate(t, c, object.Scope{}, before, func(object.Update) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := proxy.Requests("Watch")
			if err := read(t); !errors.Is(err, object.ErrAnswerTooLarge) || errors.Is(err, object.ErrTooLarge) {
				t.Errorf("got %v, want %v", err, object.ErrAnswerTooLarge)
			}
			if n := proxy.Requests("Watch") - asked; n > 2 {
				t.Errorf("etcd read the change %d times, want at most 2", n)
			}
		})
	}
}

// A list reads smaller pages if a page is too large for a proxy. An object that alone is too
// large is an error of the read, not of a write.
func TestListReadsSmallerPages(t *testing.T) {
	c, direct, proxy := behindProxy(t, 4<<20)
	const objects = 40
	var at object.Revision
	for i := range objects {
		at = commit(t, direct, put(fmt.Sprintf("k%02d", i), large))
	}
	for round := range 2 {
		asked := proxy.Requests("Range")
		n := 0
		for start, more := object.Key(""), true; more; {
			var records []object.Record
			var err error
			if records, more, err = c.List(contextFor(t), at, object.Scope{}, start, 1000); err != nil {
				t.Fatal(err)
			}
			n += len(records)
			start = records[len(records)-1].Key + "\x00"
		}
		if n != objects {
			t.Errorf("got %d objects, want %d", n, objects)
		}
		if got := proxy.Requests("Range") - asked; round == 1 && got > objects {
			t.Errorf("got %d reads of the second list, want at most one for each object", got)
		}
	}
	narrow, direct, _ := behindProxy(t, 512<<10)
	at = commit(t, direct, put("k", large))
	if _, _, err := narrow.List(contextFor(t), at, object.Scope{}, "", 1000); !errors.Is(err, object.ErrAnswerTooLarge) || errors.Is(err, object.ErrTooLarge) {
		t.Errorf("an object that is too large: got %v, want %v", err, object.ErrAnswerTooLarge)
	}
}

// A write whose answer is too large for a proxy may have been applied. Its error says so.
func TestWriteWithAnAnswerThatIsTooLarge(t *testing.T) {
	c, direct, _ := behindProxy(t, 512<<10)
	commit(t, direct, put("k", large))
	op := remove("k")
	op.ReturnDeleted = true
	if _, err := c.Commit(contextFor(t), []object.Op{op}); !errors.Is(err, object.ErrUnavailable) || errors.Is(err, object.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, object.ErrUnavailable)
	}
	if records, _, err := direct.List(contextFor(t), 0, object.Scope{}, "", 10); err != nil || len(records) > 0 {
		t.Errorf("after the delete: got %s, %v", show(records), err)
	}
}

// A put that would replace objects that the server has not checked learns their revisions. The values
// of all of them may be more than etcd can send.
func TestStaleWriteReadsNoValues(t *testing.T) {
	c, direct, _ := behindProxy(t, 512<<10)
	at := commit(t, direct, put("k", large))
	op := put("k", "v")
	op.Seen = &object.Seen{}
	_, err := c.Commit(contextFor(t), []object.Op{op})
	if stale, ok := errors.AsType[*object.StaleError](err); !ok || stale.Have[0] != at || stale.At < at {
		t.Errorf("got %v, want that the object has revision %d", err, at)
	}
}

// A backlog is delivered in small parts.
func TestBacklogIsDeliveredInParts(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		before := commit(t, c, put("k", "v"))
		var last object.Revision
		const changes = 30
		for i := range changes {
			last = commit(t, c, put("k", large), put(fmt.Sprint("small", i), "v"))
			commit(t, e.Plain("other", "/other/"), put("k", large))
		}
		n := 0
		for _, size := range watchScope(t, c, object.Scope{}, before, last) {
			if n += size; size > 4 {
				t.Errorf("got an update of %d changes, want at most two revisions", size)
			}
		}
		if n != 2*changes {
			t.Errorf("got %d changes, want %d", n, 2*changes)
		}
	})
}

// A reader that is slow holds back the connection to etcd.
func TestBacklogIsReadAtThePaceOfTheReader(t *testing.T) {
	c, direct, proxy := behindProxy(t, 8<<20) // which refuses a message with all of the backlog
	before := commit(t, direct, put("k", "v"))
	const changes = 100
	var last object.Revision
	for range changes {
		last = commit(t, direct, put("k", large))
	}
	// The most that is on its way: messages in etcd's client, and the buffers of two connections.
	const mostUnread = 64 * megabyte
	taken := int64(0)
	read := func(n int) {
		if unread := proxy.Bytes("Watch") - taken; unread > mostUnread {
			t.Errorf("%d bytes wait for the reader, want at most %d", unread, mostUnread)
		}
		taken += int64(n) * megabyte
	}
	t.Run("scope", func(t *testing.T) {
		err := eachUpdate(t, c, object.Scope{}, before, func(u object.Update) error {
			read(2 * len(u.Records)) // with the objects before
			if u.Through >= last {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
	})
	t.Run("resource", func(t *testing.T) {
		taken = proxy.Bytes("Watch")
		stream := watch(t, c, before)
		for n := 0; n < changes; {
			u := next(t, stream)
			n += len(u.Records)
			read(len(u.Records))
		}
	})
}

// Compaction of the history that a watch has not read yet ends the watch.
func TestBacklogThatIsCompacted(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		before := commit(t, c, put("k", "v"))
		var last object.Revision
		for range 100 {
			last = commit(t, c, put("k", large))
		}
		compacted := false
		reached := before
		err := eachUpdate(t, c, object.Scope{}, before, func(u object.Update) error {
			for _, r := range u.Records {
				if r.ModRevision != reached+1 {
					t.Errorf("got revision %d after %d", r.ModRevision, reached)
				}
				reached = r.ModRevision
			}
			if !compacted {
				compacted = true
				if _, err := e.client.Compact(context.WithoutCancel(t.Context()), int64(last)); err != nil {
					t.Error(err)
				}
			}
			if u.Through >= last {
				return errEnough // it was on its way before the compaction
			}
			return nil
		})
		if !errors.Is(err, object.ErrCompacted) && !errors.Is(err, errEnough) {
			t.Errorf("got %v, want %v", err, object.ErrCompacted)
		}
	})
}
