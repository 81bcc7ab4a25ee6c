package load

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// service describes the watch protocol of a gRPC server.
type service struct {
	path string
	half bool // the client sends one request and closes its half of the stream
	// request returns the request for the watch of a watcher.
	request func(c Config, watcher int) ([]byte, error)
	// read is the method that returns the state, for servers whose watches cannot begin with
	// the state. readRequest returns the request.
	read        string
	readRequest func(c Config, watcher int) ([]byte, error)
	// watch returns the number of a message's watch within its stream.
	watch func(message []byte) (int, error)
}

var services = map[string]service{
	"fanoutd": {
		path:    fanoutv1.FanoutService_Watch_FullMethodName,
		half:    true,
		request: fanoutdRequest,
		watch:   singleWatch,
	},
	"etcd": {
		path:    "/etcdserverpb.Watch/Watch",
		request: etcdRequest,
		read:    "/etcdserverpb.KV/Range", readRequest: etcdRange,
		watch: etcdWatch,
	},
}

// singleWatch is the number of the watch on streams that have only one.
func singleWatch([]byte) (int, error) { return 0, nil }

// fanoutdRequest asks for all changes from now on. The first response confirms the watch.
func fanoutdRequest(c Config, watcher int) ([]byte, error) {
	request := &fanoutv1.WatchRequest{
		Resource: Resource,
		Begin:    &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}},
	}
	switch {
	case c.After != nil:
		request.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{Epoch: c.After.Epoch, Revision: c.After.Revision}}
	case c.Snapshot:
		request.Begin = nil
	}
	if key, ok := c.key(watcher); ok {
		request.Scope = &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: Key(key)}}
	}
	request.LabelSelector = c.selector(watcher)
	return proto.Marshal(request)
}

// etcdRequest asks etcd for the same. The first response confirms the watch. The watches of a
// stream are numbered from 0, in order.
func etcdRequest(c Config, watcher int) ([]byte, error) {
	from, to, err := etcdKeys(c, watcher)
	if err != nil {
		return nil, err
	}
	create := &etcdserverpb.WatchCreateRequest{Key: from, RangeEnd: to}
	if c.After != nil {
		create.StartRevision = c.After.Revision + 1
	}
	request := &etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{CreateRequest: create}}
	return proto.Marshal(request)
}

// etcdRange returns the request for the state.
func etcdRange(c Config, watcher int) ([]byte, error) {
	from, to, err := etcdKeys(c, watcher)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&etcdserverpb.RangeRequest{Key: from, RangeEnd: to})
}

// etcdKeys returns the keys of a watcher as a half-open range; only from if to is nil.
func etcdKeys(c Config, watcher int) (from, to []byte, err error) {
	if c.selector(watcher) != "" {
		return nil, nil, fmt.Errorf("etcd has no labels")
	}
	if key, ok := c.key(watcher); ok {
		return []byte(Prefix + Key(key)), nil, nil
	}
	return []byte(Prefix), []byte(prefixEnd), nil
}

// The fields of etcd's response that etcdWatch reads.
const (
	fieldWatchID  = 2
	fieldCanceled = 4
	fieldEvents   = 11
)

// etcdWatch reads only the beginning of the message, because the fields come in the order
// of their numbers.
func etcdWatch(message []byte) (int, error) {
	watch := 0
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0, fmt.Errorf("read etcd's response: %w", protowire.ParseError(n))
		}
		if number >= fieldEvents {
			break
		}
		message = message[n:]
		switch number {
		case fieldWatchID:
			id, _ := protowire.ConsumeVarint(message)
			watch = int(id)
		case fieldCanceled:
			return 0, fmt.Errorf("etcd canceled watch %d", watch)
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return 0, fmt.Errorf("read etcd's response: %w", protowire.ParseError(n))
		}
		message = message[n:]
	}
	return watch, nil
}
