package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/poll"
)

// defaultWindow is the default number of changes in fanoutd's window.
const defaultWindow = 10_000

// dialEtcd returns a client of the etcd whose members are at the addresses.
func dialEtcd(t *testing.T, addresses ...string) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, address := range addresses {
		endpoints = append(endpoints, "http://"+address)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:          endpoints,
		DialOptions:        dialOptions(),
		DialTimeout:        poll.Patience,
		BackoffWaitBetween: 20 * time.Millisecond,
		Logger:             zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// readTruth returns the whole history of the resource from etcd.
func readTruth(t *testing.T, client *clientv3.Client) *check.Truth {
	t.Helper()
	ctx := poll.Context(t)
	changes, through, err := readHistory(ctx, client)
	if err != nil {
		t.Fatalf("read the history of etcd: %v", err)
	}
	truth, err := check.NewTruth(changes, through)
	if err != nil {
		t.Fatal(err)
	}
	truth.Window = defaultWindow
	return truth
}

func readHistory(ctx context.Context, client *clientv3.Client) ([]check.Change, object.Revision, error) {
	present, err := client.Get(ctx, "x", clientv3.WithCountOnly())
	if err != nil {
		return nil, 0, err
	}
	through := present.Header.GetRevision()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var changes []check.Change
	last := int64(1) // an empty etcd is at revision 1
	// Watch all keys: then the last revision is sure to have an event.
	watch := client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1))
	for last < through {
		answer, ok := <-watch
		if !ok {
			return nil, 0, fmt.Errorf("the watch ended at revision %d of %d: %w", last, through, context.Cause(ctx))
		}
		if err := answer.Err(); err != nil {
			return nil, 0, err
		}
		for _, event := range answer.Events {
			last = event.Kv.ModRevision
			key, ok := strings.CutPrefix(string(event.Kv.Key), etcdPrefix)
			if !ok {
				continue
			}
			c, err := changeOf(object.Key(key), event)
			if err != nil {
				return nil, 0, err
			}
			changes = append(changes, c)
		}
	}
	return changes, object.Revision(last), nil
}

func changeOf(key object.Key, event *clientv3.Event) (check.Change, error) {
	c := check.Change{Revision: object.Revision(event.Kv.ModRevision), Key: key}
	if event.Type == mvccpb.Event_DELETE {
		return c, nil
	}
	c.New = &object.Decoded{
		Key:            key,
		CreateRevision: object.Revision(event.Kv.CreateRevision),
		ModRevision:    object.Revision(event.Kv.ModRevision),
		Version:        event.Kv.Version,
	}
	err := decodeEnvelope(c.New, event.Kv.Value)
	readFields(c.New)
	return c, err
}
