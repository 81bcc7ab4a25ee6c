package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// writer changes objects in etcd, so that they change while there is no server.
type writer struct {
	etcd    *clientv3.Client
	rng     *rand.Rand
	changes atomic.Int64 // requests that were made
}

func newWriter(t *testing.T, address string, rng *rand.Rand) *writer {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcd.Close() })
	return &writer{etcd: etcd, rng: rng}
}

// write makes about 200 changes a second, while there is an etcd, until ctx is done.
func (w *writer) write(ctx context.Context) error {
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		<-pace.C
		if err := w.change(w.operations()); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		w.changes.Add(1)
	}
	return nil
}

// change makes a change. One that fails may have been made or not; another try does
// no harm. What has begun is brought to its end, so that all is quiet afterwards.
func (w *writer) change(ops []clientv3.Op) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		_, err := w.etcd.Txn(ctx).Then(ops...).Commit()
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// operations returns those of one change, in one of the resources. All objects
// together are more than fits into one message, so that catch-ups can be cut in two.
// A change is of one key mostly, of several now and then, and sometimes of more than
// fits into one message.
func (w *writer) operations() []clientv3.Op {
	n, size := 1, 20<<10
	switch w.rng.IntN(100) {
	case 0:
		n, size = 24, 50<<10
	case 1, 2, 3, 4:
		n, size = 5, 6<<10
	}
	resource := cached
	if w.rng.IntN(4) == 0 {
		resource = uncached
	}
	var ops []clientv3.Op
	first := w.rng.IntN(200)
	for i := range n {
		number := (first + i) % 200
		key := fmt.Sprintf("%s%c/%d", etcdPrefix(resource), 'a'+rune(number%4), number)
		if w.rng.IntN(4) == 0 {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		value := strconv.Itoa(w.rng.IntN(1000))
		if w.rng.IntN(40) == 0 {
			value = "not a number"
		}
		if n > 5 {
			value += strings.Repeat(" ", size)
		} else {
			value += strings.Repeat(" ", w.rng.IntN(size))
		}
		ops = append(ops, clientv3.OpPut(key, value))
	}
	return ops
}

// more waits for so many more changes.
func (w *writer) more(ctx context.Context, n int) error {
	until := w.changes.Load() + int64(n)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for w.changes.Load() < until {
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// compact makes etcd forget what was before now.
func (w *writer) compact(ctx context.Context) error {
	now, err := w.etcd.Get(ctx, etcdPrefix(cached), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	if _, err := w.etcd.Compact(ctx, now.Header.Revision); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}
