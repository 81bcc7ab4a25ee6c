package floor

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Follow broadcasts every change below a prefix of etcd, those that etcd tells
// together in one message, in the same bytes as fanoutd. It ends with the context.
func (s *Server) Follow(ctx context.Context, etcd *clientv3.Client, prefix string) error {
	// The context makes etcd say so when it has no leader, instead of saying nothing.
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
	return errors.New("the watch of etcd has ended")
}

func encode(prefix string, changes clientv3.WatchResponse) ([]byte, error) {
	response := &fanoutv1.WatchResponse{
		Kind:     fanoutv1.WatchResponse_KIND_LIVE,
		Position: position(changes.Header.ClusterId, changes.Header.Revision),
	}
	for _, change := range changes.Events {
		event := &fanoutv1.Event{
			Type: fanoutv1.Event_TYPE_MODIFIED,
			Object: &fanoutv1.Object{
				Key:            string(change.Kv.Key[len(prefix):]),
				Value:          &fanoutv1.Object_Data{Data: change.Kv.Value},
				ContentType:    "application/octet-stream",
				CreateRevision: change.Kv.CreateRevision,
				ModRevision:    change.Kv.ModRevision,
				Version:        change.Kv.Version,
			},
		}
		if change.IsCreate() {
			event.Type = fanoutv1.Event_TYPE_ADDED
		} else if change.Type == clientv3.EventTypeDelete {
			event.Type = fanoutv1.Event_TYPE_DELETED
		}
		response.Events = append(response.Events, event)
	}
	m, err := proto.Marshal(response)
	if err != nil {
		return nil, fmt.Errorf("encode changes: %w", err)
	}
	return m, nil
}

func position(cluster uint64, revision int64) *fanoutv1.Position {
	return &fanoutv1.Position{Epoch: fmt.Sprintf("%016x", cluster), Revision: revision}
}

// First is the first message of a stream, which says that it is watched.
func First() ([]byte, error) {
	return proto.Marshal(&fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_BOOKMARK})
}
