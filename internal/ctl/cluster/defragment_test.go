package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// lagging is a cluster with a member that never catches up.
type lagging struct {
	fanoutv1.UnimplementedClusterServiceServer
}

func (lagging) GetCluster(context.Context, *fanoutv1.GetClusterRequest) (*fanoutv1.GetClusterResponse, error) {
	return &fanoutv1.GetClusterResponse{Members: []*fanoutv1.ClusterMember{
		{Name: "node-1", EtcdVersion: "3.7.3", Healthy: true},
		{Name: "node-2", EtcdVersion: "3.7.3", Problem: "it is 5000 entries behind"},
	}}, nil
}

// A defragmentation says for whom it waits, and does not wait without end.
func TestDefragmentationEndsIfAMemberStaysBehind(t *testing.T) {
	var waited []string
	fail := func(string, string) { t.Error("a member is skipped") }
	err := clientOf(t, lagging{}).Defragment(poll.Context(t), 100*time.Millisecond, Steps{
		Done: func(d Defragmented) { t.Errorf("%s was defragmented", d.Member) }, Skipped: fail, Waiting: func(why string) { waited = append(waited, why) },
	})
	late, ok := errors.AsType[*LateError](err)
	if want := "node-2 (it is 5000 entries behind)"; !ok || *late != (LateError{"node-1", want}) || !slices.Equal(waited, []string{want}) {
		t.Errorf("got %v, %q", err, waited)
	}
}
