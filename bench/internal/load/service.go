package load

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// service is how one asks a server of gRPC for watches, and which of them a message is
// for.
type service struct {
	path string
	half bool // one request, and then only the server sends
	// request returns what asks for the watch of a watcher.
	request func(c Config, watcher int) ([]byte, error)
	// read is how one asks for the state, where that is not what a watch can begin with.
	read        string
	readRequest func(c Config, watcher int) ([]byte, error)
	// watch returns which of those on its stream a message is for.
	watch func(message []byte) (int, error)
}

var services = map[string]service{
	"fanoutd": {
		path:    fanoutv1.FanoutService_Watch_FullMethodName,
		half:    true,
		request: fanoutdRequest,
		watch:   theOnly,
	},
	"etcd": {
		path:    "/etcdserverpb.Watch/Watch",
		request: etcdRequest,
		read:    "/etcdserverpb.KV/Range", readRequest: etcdRange,
		watch: etcdWatch,
	},
}

func theOnly([]byte) (int, error) { return 0, nil }

// fanoutdRequest asks for what happens from now on. The first response says that the
// watch is registered.
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

// etcdRequest asks for the same. The first response says that the watch is created. The
// watches of a stream get numbers in their order, from 0.
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

// etcdRange asks for the state.
func etcdRange(c Config, watcher int) ([]byte, error) {
	from, to, err := etcdKeys(c, watcher)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&etcdserverpb.RangeRequest{Key: from, RangeEnd: to})
}

// etcdKeys returns which keys a watcher watches: from, and up to but without to; only
// from, if to is nil.
func etcdKeys(c Config, watcher int) (from, to []byte, err error) {
	if c.selector(watcher) != "" {
		return nil, nil, fmt.Errorf("etcd does not know labels")
	}
	if key, ok := c.key(watcher); ok {
		return []byte(Prefix + Key(key)), nil, nil
	}
	return []byte(Prefix), []byte(behindPrefix), nil
}

// The fields of etcd's response that matter here.
const (
	fieldWatchID  = 2
	fieldCanceled = 4
	fieldEvents   = 11
)

// etcdWatch reads no more of the message than it must: the fields come in the order of
// their numbers.
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
			return 0, fmt.Errorf("etcd has cancelled watch %d", watch)
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return 0, fmt.Errorf("read etcd's response: %w", protowire.ParseError(n))
		}
		message = message[n:]
	}
	return watch, nil
}
