package store

import (
	"context"
	"errors"
	"io"
	"iter"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
)

// maxScanMessage is the size of the largest part of a stream that Scan accepts. etcd makes them
// about as large as its largest request, unless the records are much larger than those before them.
const maxScanMessage = 64 << 20

// scanPage is the largest number of records of a page when etcd has no stream. For each page, etcd
// counts all keys that follow. So small pages of small records would cost it more than the records.
const scanPage = 8192

// Scan returns all records as of revision at in ascending byte order of keys, some at a time. It
// is cheaper than calling [Collection.List] for one page after the other. An error, which is one of
// List, ends the sequence.
//
// Since 3.7, etcd sends a range as a stream. If the stream fails for whatever reason, Scan reads the
// rest in pages: an older etcd or a proxy may not know the method, or its member may have been
// lost.
func (c *Collection) Scan(ctx context.Context, at object.Revision) iter.Seq2[[]object.Record, error] {
	return func(yield func([]object.Record, error) bool) {
		s := &scan{collection: c, at: at, yield: yield}
		if s.stream(ctx) {
			return
		}
		for more := true; more; {
			var records []object.Record
			var err error
			records, more, err = c.List(ctx, at, object.Scope{}, s.start, scanPage)
			if !yield(records, err) || err != nil {
				return
			}
			if more {
				s.start = records[len(records)-1].Key + "\x00"
			}
		}
	}
}

// errStopped ends a stream whose reader wants no more.
var errStopped = errors.New("the reader has stopped")

// scan is a running scan.
type scan struct {
	collection *Collection
	at         object.Revision
	start      object.Key // everything before it has been read
	yield      func([]object.Record, error) bool
}

// stream reads a stream of etcd. It returns false if the rest must be read in another way.
func (s *scan) stream(ctx context.Context) (done bool) {
	c := s.collection
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, history := c.store.epochs.Current()
	request := &pb.RangeRequest{Key: []byte(c.prefix), RangeEnd: []byte(c.end), Revision: int64(s.at)}
	err := c.store.ranges(ctx, request, func(kvs []*mvccpb.KeyValue) error {
		return s.deliver(ctx, history, kvs)
	})
	c.store.calls.count(opList, nil) // failures are those of the pages that follow
	return err == nil || errors.Is(err, errStopped)
}

// deliver passes records on to the reader.
func (s *scan) deliver(ctx context.Context, h *epochs.History, kvs []*mvccpb.KeyValue) error {
	c := s.collection
	if err := ctx.Err(); err != nil {
		return err // gRPC may have received more
	}
	if err := c.verifyConnection(ctx); err != nil {
		return err // the pages fail, too, unless the connection is there again
	}
	if h.HasEnded() { // etcd may have been restored since the start of the stream
		s.yield(nil, epochs.ErrEnded)
		return errStopped
	}
	records := make([]object.Record, 0, len(kvs))
	for _, kv := range kvs {
		if key, ok := c.key(kv.Key); ok {
			records = append(records, c.record(key, kv))
		}
	}
	if len(records) == 0 {
		return nil
	}
	if !s.yield(records, nil) {
		return errStopped
	}
	s.start = records[len(records)-1].Key + "\x00"
	return nil
}

// rangeStream calls each with the parts of a range of etcd. It returns the first error.
type rangeStream func(ctx context.Context, request *pb.RangeRequest, each func([]*mvccpb.KeyValue) error) error

// rangesOf returns the ranges of an etcd that a client is connected to.
func rangesOf(client pb.KVClient) rangeStream {
	return func(ctx context.Context, request *pb.RangeRequest, each func([]*mvccpb.KeyValue) error) error {
		s, err := client.RangeStream(ctx, request, grpc.MaxCallRecvMsgSize(maxScanMessage))
		if err != nil {
			return err
		}
		for {
			part, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := each(part.GetRangeResponse().GetKvs()); err != nil {
				return err
			}
		}
	}
}
