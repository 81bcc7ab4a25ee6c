package store_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/grpcproxy"
)

// scanAll returns the records of a scan and the number of its parts.
func scanAll(t *testing.T, c *store.Collection, at object.Revision) (all []object.Record, parts int) {
	t.Helper()
	for records, err := range c.Scan(contextFor(t), at) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
		parts++
	}
	return all, parts
}

// listAll returns the records of a list in pages.
func listAll(t *testing.T, c *store.Collection, at object.Revision) (all []object.Record) {
	t.Helper()
	for start, more := object.Key(""), true; more; {
		var records []object.Record
		var err error
		if records, more, err = c.List(contextFor(t), at, object.Scope{}, start, math.MaxInt); err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
		if len(records) > 0 {
			start = records[len(records)-1].Key + "\x00"
		}
	}
	return all
}

// A scan has the records of a list at the same revision, whatever has changed since.
func TestScanEqualsList(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		epochOf(t, c)
		if records, _ := scanAll(t, c, 1); len(records) != 0 {
			t.Errorf("an empty prefix has %d records", len(records))
		}
		var at object.Revision
		for i := range 100 {
			at = commit(t, c, put(fmt.Sprintf("k%02d", i), "v"))
		}
		for _, key := range []string{prefix, prefix + "k50\xff", "/test0", "/tes"} { // no objects of the collection
			if _, err := e.client.Put(contextFor(t), key, "v"); err != nil {
				t.Fatal(err)
			}
		}
		later := commit(t, c, put("k00", "w"), remove("k01"), put("new", "v"))
		for _, at := range []object.Revision{at, later} {
			records, parts := scanAll(t, c, at)
			if got, want := show(records), show(listAll(t, c, at)); got != want {
				t.Errorf("at revision %d: got %s, want %s", at, got, want)
			}
			if parts < 2 {
				t.Errorf("got the records in %d parts", parts)
			}
		}
	})
}

// A compaction during a scan ends it with the error of a list. etcd cannot have sent everything
// before: it waits for the reader.
func TestScanMeetsACompaction(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		epochOf(t, c)
		var at object.Revision
		for i := range 100 {
			at = commit(t, c, put(fmt.Sprintf("k%02d", i), large))
		}
		now := commit(t, c, put("k00", "w"))
		var last error
		parts := 0
		for _, err := range c.Scan(contextFor(t), at) {
			if last = err; err != nil {
				break
			}
			if parts++; parts == 1 {
				if _, err := e.client.Compact(contextFor(t), int64(now), clientv3.WithCompactPhysical()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !errors.Is(last, object.ErrCompacted) {
			t.Errorf("got %v after %d parts, want %v", last, parts, object.ErrCompacted)
		}
	})
}

// A reader may stop, and a scan ends with its context.
func TestScanEndsEarly(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		epochOf(t, c)
		var at object.Revision
		for i := range 30 {
			at = commit(t, c, put(fmt.Sprintf("k%02d", i), "v"))
		}
		for records, err := range c.Scan(contextFor(t), at) {
			if err != nil || len(records) == 30 {
				t.Fatalf("got %d records, %v", len(records), err)
			}
			break
		}
		ctx, cancel := context.WithCancel(contextFor(t))
		defer cancel()
		var last error
		for _, err := range c.Scan(ctx, at) {
			cancel()
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("got %v, want %v", last, context.Canceled)
		}
	})
}

// Where there is no stream, or where it breaks, a scan reads pages.
func TestScanWithoutAStream(t *testing.T) {
	address := etcdproc.Start(t, "http")
	direct := dialStore(t, store.ExternalConfig{Endpoints: []string{address}})
	epochOf(t, direct)
	const objects = 40
	var at object.Revision
	for i := range objects {
		at = commit(t, direct, put(fmt.Sprintf("k%02d", i), large))
	}
	want := show(listAll(t, direct, at))
	for name, test := range map[string]struct {
		cfg   grpcproxy.Config
		pages bool
	}{
		"a stream": {},
		"no stream": {grpcproxy.Config{Admit: func(_ context.Context, method string) error {
			if method == "RangeStream" {
				return status.Error(codes.Unimplemented, "unknown method RangeStream")
			}
			return nil
		}}, true},
		"parts are too large": {grpcproxy.Config{MaxSend: 8 << 20}, true},
	} {
		t.Run(name, func(t *testing.T) {
			test.cfg.Target = address
			proxy := grpcproxy.Start(t, test.cfg)
			c := dialStore(t, store.ExternalConfig{Endpoints: []string{proxy.Address}})
			epochOf(t, c)
			records, _ := scanAll(t, c, at)
			if show(records) != want {
				t.Errorf("got %d records, want %d", len(records), objects)
			}
			if inPages := proxy.Bytes("Range"); inPages > megabyte != test.pages {
				t.Errorf("read %d bytes in pages", inPages)
			}
		})
	}
}
