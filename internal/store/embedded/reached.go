package embedded

import (
	"context"
	"strconv"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/internal/cluster/manage"
)

// A question for Status with headerReach, the id of a member, asks a server to ask that member. The server adds headerReached
// to its answer if the member has answered it. A plain etcd ignores the question.
const (
	headerReach   = "fanoutd-reach"
	headerReached = "fanoutd-reached"
)

// Reached implements [manage.Etcd].
func (m *Member) Reached(ctx context.Context, id uint64) (by []uint64) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, headerReach, strconv.FormatUint(id, 16)), 2*questionTimeout)
	defer cancel()
	var (
		mu     sync.Mutex
		asking sync.WaitGroup
	)
	for _, one := range m.etcd.Server.Cluster().Members() {
		if other := uint64(one.ID); other != id && one.ID != m.etcd.Server.MemberID() {
			asking.Go(func() {
				conn, err := m.others.to(manage.Member{ID: other, ClientURLs: one.ClientURLs})
				if err != nil {
					return
				}
				var more metadata.MD
				_, err = pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}, grpc.Header(&more))
				if err == nil && len(more.Get(headerReached)) > 0 {
					mu.Lock()
					defer mu.Unlock()
					by = append(by, other)
				}
			})
		}
	}
	asking.Wait()
	return by
}

// reaches reports whether a request asks for a member, and that member answers.
func (m *Member) reaches(ctx context.Context) bool {
	asked := metadata.ValueFromIncomingContext(ctx, headerReach)
	if len(asked) == 0 {
		return false
	}
	id, err := strconv.ParseUint(asked[0], 16, 64)
	if err != nil {
		return false
	}
	one := m.etcd.Server.Cluster().Member(types.ID(id))
	if one == nil {
		return false
	}
	_, err = m.ask(ctx, manage.Member{ID: id, ClientURLs: one.ClientURLs})
	return err == nil
}
