package floor

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Follow broadcasts every change below a prefix of etcd until the context ends. The changes
// of one etcd response form one message, which has the same bytes as fanoutd's.
func (s *Server) Follow(ctx context.Context, etcd *clientv3.Client, prefix string) error {
	// With this context etcd reports the loss of its leader.
	changes := etcd.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithPrevKV())
	for response := range changes {
		if err := response.Err(); err != nil {
			return fmt.Errorf("watch etcd: %w", err)
		}
		m, err := encode(prefix, response)
		if err != nil {
			return err
		}
		s.Broadcast(m)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("etcd ended the watch")
}

func encode(prefix string, changes clientv3.WatchResponse) ([]byte, error) {
	response := &fanoutv1.WatchResponse{
		Kind:     fanoutv1.WatchResponse_KIND_LIVE,
		Position: position(changes.Header),
	}
	for _, change := range changes.Events {
		event := &fanoutv1.Event{Type: fanoutv1.Event_TYPE_MODIFIED, Revision: change.Kv.ModRevision, Object: object(prefix, change.Kv)}
		if change.IsCreate() {
			event.Type = fanoutv1.Event_TYPE_ADDED
		} else if change.Type == clientv3.EventTypeDelete {
			event.Type = fanoutv1.Event_TYPE_DELETED
		}
		response.Events = append(response.Events, event)
	}
	return marshal(response)
}

func marshal(response *fanoutv1.WatchResponse) ([]byte, error) {
	m, err := proto.Marshal(response)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	return m, nil
}

func object(prefix string, kv *mvccpb.KeyValue) *fanoutv1.Object {
	return &fanoutv1.Object{
		Key:            string(kv.Key[len(prefix):]),
		Value:          &fanoutv1.Object_Data{Data: kv.Value},
		ContentType:    "application/octet-stream",
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Version:        kv.Version,
	}
}

func position(h *etcdserverpb.ResponseHeader) *fanoutv1.Position {
	return &fanoutv1.Position{Epoch: fmt.Sprintf("%016x", h.GetClusterId()), Revision: h.GetRevision()}
}

// First returns the first message of a stream, which confirms the watch.
func First() ([]byte, error) {
	return marshal(&fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_BOOKMARK})
}

// Snapshot returns a first message with the whole state.
func Snapshot(ctx context.Context, etcd *clientv3.Client, prefix string) ([]byte, error) {
	state, err := etcd.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read the state from etcd: %w", err)
	}
	response := &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_CATCH_UP_PART, Position: position(state.Header)}
	for _, kv := range state.Kvs {
		response.Events = append(response.Events, &fanoutv1.Event{Type: fanoutv1.Event_TYPE_ADDED, Revision: kv.ModRevision, Object: object(prefix, kv)})
	}
	return marshal(response)
}
