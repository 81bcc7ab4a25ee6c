package load

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// service describes the watch protocol of a gRPC server.
type service struct {
	path string
	half bool // the client sends one request and closes its half of the stream
	// request returns the request for the watch of a watcher, which has this number within its
	// stream.
	request func(c Config, watcher, watch int) ([]byte, error)
	// read is the method that returns the state, for servers whose watches cannot begin with
	// the state. readRequest returns the request.
	read        string
	readRequest func(c Config, watcher int) ([]byte, error)
	// split calls a function for each part of a message, with the numbers of the watches to
	// which the part belongs. It does not keep the slices.
	split func(message []byte, do func(watches []uint64, part []byte) error) error
}

var services = map[string]service{
	"fanoutd": {
		path:    fanoutv1.FanoutService_Watch_FullMethodName,
		half:    true,
		request: fanoutdRequest,
		split:   oneWatch,
	},
	"etcd": {
		path:    "/etcdserverpb.Watch/Watch",
		request: etcdRequest,
		read:    "/etcdserverpb.KV/Range", readRequest: etcdRange,
		split: etcdSplit,
	},
}

// subscribe is fanoutd's method for streams with any number of watches.
var subscribe = service{
	path:    fanoutv1.FanoutService_Subscribe_FullMethodName,
	request: subscribeRequest,
	split:   subscribeSplit,
}

// service returns the watch protocol, if it is one of gRPC.
func (c Config) service() (service, bool) {
	if c.Protocol == "fanoutd" && c.PerStream > 0 {
		return subscribe, true
	}
	s, ok := services[c.Protocol]
	return s, ok
}

// oneWatch is for streams with one watch.
func oneWatch(message []byte, do func(watches []uint64, part []byte) error) error {
	return do([]uint64{0}, message)
}

func fanoutdRequest(c Config, watcher, _ int) ([]byte, error) {
	return proto.Marshal(watchRequest(c, watcher))
}

// watchRequest asks for all changes from now on. The first response confirms the watch.
func watchRequest(c Config, watcher int) *fanoutv1.WatchRequest {
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
	if c.Bookmarks > 0 {
		request.BookmarkInterval = durationpb.New(c.Bookmarks)
	}
	return request
}

// etcdRequest asks etcd for the same. The first response confirms the watch. The watches of a
// stream are numbered from 0, in order.
func etcdRequest(c Config, watcher, _ int) ([]byte, error) {
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

// The fields of etcd's response that etcdSplit reads.
const (
	fieldWatchID  = 2
	fieldCanceled = 4
	fieldEvents   = 11
)

// etcdSplit reads only the beginning of the message, because the fields come in the order
// of their numbers. A message belongs to one watch.
func etcdSplit(message []byte, do func(watches []uint64, part []byte) error) error {
	watch := uint64(0)
	for rest := message; len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return fmt.Errorf("read etcd's response: %w", protowire.ParseError(n))
		}
		if number >= fieldEvents {
			break
		}
		rest = rest[n:]
		switch number {
		case fieldWatchID:
			watch, _ = protowire.ConsumeVarint(rest)
		case fieldCanceled:
			return fmt.Errorf("etcd canceled watch %d", watch)
		}
		if n = protowire.ConsumeFieldValue(number, kind, rest); n < 0 {
			return fmt.Errorf("read etcd's response: %w", protowire.ParseError(n))
		}
		rest = rest[n:]
	}
	return do([]uint64{watch}, message)
}
