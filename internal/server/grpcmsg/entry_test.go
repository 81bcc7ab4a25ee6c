package grpcmsg

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// batchOf returns a batch with one event whose value has a size.
func batchOf(size int) *feed.Batch {
	o := wire.Preencode(object.Decoded{Key: "key", Value: make([]byte, size), CreateRevision: 7, ModRevision: 7, Version: 1})
	return &feed.Batch{Message: feed.Message{
		Events: [][]byte{wire.Encoder{}.AddedEvent(o, object.Projection{})}, Count: 1,
		Header: object.Header{Kind: object.Live, Position: object.Position{Epoch: "epoch", Revision: 7}},
	}}
}

// Streams of Subscribe whose watches have the same ids share the encoded response, whatever its size.
func TestStreamsWithTheSameIDsShareTheResponse(t *testing.T) {
	for _, size := range []int{10, CopiedBytes, smallMessage, 4 * smallMessage} {
		b := batchOf(size)
		for _, ids := range [][]uint64{{1}, {1, 2, 300}, {7}} {
			t.Run(fmt.Sprintf("%d bytes for %v", size, ids), func(t *testing.T) {
				encoded := wire.AppendWatchIDs(nil, ids...)
				m := EncodedEntry(b, encoded)
				if n := testing.AllocsPerRun(100, func() {
					if EncodedEntry(b, encoded) != m {
						t.Fatal("the response was encoded again")
					}
				}); n != 0 {
					t.Errorf("got %v allocations, want 0", n)
				}
				got := &fanoutv1.SubscribeResponse{}
				if err := proto.Unmarshal(m.Buffers().Materialize(), got); err != nil {
					t.Fatal(err)
				}
				want := &fanoutv1.WatchResponse{}
				if err := proto.Unmarshal(Encoded(b).Buffers().Materialize(), want); err != nil {
					t.Fatal(err)
				}
				if n := m.Buffers().Len(); m.Size() != n {
					t.Errorf("got size %d of a message of %d bytes", m.Size(), n)
				}
				if len(got.GetEntries()) != 1 || got.GetMore() {
					t.Fatalf("got %v, want one entry", got)
				}
				e := got.GetEntries()[0]
				if !slices.Equal(e.GetWatchIds(), ids) || !proto.Equal(e.GetResponse(), want) {
					t.Errorf("got %v, want the message for %v", e, ids)
				}
			})
		}
	}
}
