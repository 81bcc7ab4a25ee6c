package store

import (
	"context"
	"slices"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// maxWatchMessage is the size of the largest message that a watch accepts, unless it is a
	// fragment. If changes exceed it together, the watch asks for fragments. A fragment is about
	// as large as etcd's largest request, or has a single change.
	//
	// It does not always do so, because etcd 3.7 computes the size of a fragment again for each
	// event: a backlog of 36,000 small changes took 10 s instead of 0.1 s. Such a backlog does
	// not exceed the limit, because etcd sends at most 1,000 revisions in one message.
	maxWatchMessage = 16 << 20

	// maxUnread is the size of the changes that may wait for the reader of a watch before the
	// watch stops reading from the connection. etcd's client has no limit. There may be many
	// watches with previous records, because a cache needs none.
	maxUnread         = 8 << 20
	maxUnreadPrevious = 1 << 20

	// maxRevisionBytes is the size of the largest revision that fragments may have: its
	// changes, and the records before them if the reader wants those.
	maxRevisionBytes = 64 << 20
)

// limitedWatch is the part of one watch between gRPC and etcd's client, which limits the memory
// of the watch.
type limitedWatch struct {
	pb.WatchClient
	maxUnread int64
	opens     atomic.Int64  // how often etcd's client has opened a gRPC stream
	fragments atomic.Bool   // the next gRPC stream asks for fragments
	unread    atomic.Int64  // size of the changes that the reader has not taken
	taken     chan struct{} // capacity 1: the reader has taken changes
}

func newLimitedWatch(client pb.WatchClient, maxUnread int64) *limitedWatch {
	return &limitedWatch{WatchClient: client, maxUnread: maxUnread, taken: make(chan struct{}, 1)}
}

// Watch implements [pb.WatchClient]. etcd's client calls it again after a stream has broken.
func (w *limitedWatch) Watch(ctx context.Context, options ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	w.opens.Add(1) // before the stream is used
	fragments := w.fragments.Load()
	if !fragments {
		options = slices.Concat(options, []grpc.CallOption{grpc.MaxCallRecvMsgSize(maxWatchMessage)})
	}
	s, err := w.WatchClient.Watch(ctx, options...)
	if err != nil {
		return nil, err
	}
	return &limitedStream{Watch_WatchClient: s, watch: w, fragments: fragments}, nil
}

// take notes that the reader has taken changes of this size.
func (w *limitedWatch) take(bytes int) {
	w.unread.Add(int64(-bytes))
	select {
	case w.taken <- struct{}{}:
	default: // it is noted already
	}
}

// awaitReader waits until the reader has taken most changes.
func (w *limitedWatch) awaitReader(ctx context.Context) error {
	for w.unread.Load() > w.maxUnread {
		select {
		case <-w.taken:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return nil
}

// limitedStream is a gRPC stream of a limitedWatch. Like every client stream, it has at most one
// sender and one receiver.
type limitedStream struct {
	pb.Watch_WatchClient
	watch     *limitedWatch
	fragments bool
	held      []*mvccpb.Event // of a revision that may be incomplete
}

// Send implements [pb.Watch_WatchClient].
func (s *limitedStream) Send(request *pb.WatchRequest) error {
	if create := request.GetCreateRequest(); create != nil {
		create.Fragment = s.fragments
	}
	return s.Watch_WatchClient.Send(request)
}

// Recv implements [pb.Watch_WatchClient].
func (s *limitedStream) Recv() (*pb.WatchResponse, error) {
	for {
		if err := s.watch.awaitReader(s.Context()); err != nil {
			return nil, err
		}
		response, err := s.Watch_WatchClient.Recv()
		if err != nil {
			return nil, s.failed(err)
		}
		complete, err := s.join(response)
		if err != nil {
			return nil, err
		}
		if complete {
			s.watch.unread.Add(int64(sizeOfEvents(response.Events)))
			return response, nil
		}
	}
}

// failed returns the error of the stream for etcd's client. If a message was too large, the
// error makes the client open another stream, which asks for fragments.
func (s *limitedStream) failed(err error) error {
	tooLarge := status.Code(err) == codes.ResourceExhausted
	s.watch.fragments.Store(tooLarge && !s.fragments)
	if tooLarge && !s.fragments {
		return status.Errorf(codes.Unavailable, "watch again, with fragments: %v", err)
	}
	return err
}

// join makes a fragment a message of its own, with the changes of whole revisions. It keeps the
// changes of the last revision until the next fragment. It returns false if there is no message
// yet. etcd's client would collect all fragments of a backlog first.
func (s *limitedStream) join(response *pb.WatchResponse) (complete bool, err error) {
	if len(s.held) > 0 && !response.Canceled {
		response.Events = append(s.held, response.Events...)
		s.held = nil
	}
	if !response.Fragment || len(response.Events) == 0 {
		return true, nil
	}
	response.Fragment = false
	n := len(response.Events) - 1
	for last := response.Events[n].Kv.ModRevision; n > 0 && response.Events[n-1].Kv.ModRevision == last; {
		n--
	}
	s.held, response.Events = slices.Clone(response.Events[n:]), response.Events[:n]
	if size := sizeOfEvents(s.held); size > maxRevisionBytes {
		return false, status.Errorf(codes.ResourceExhausted, "a revision has changes of more than %d bytes", size)
	}
	return n > 0, nil
}

// sizeOfEvents returns the size of the keys and values of changes, and of the records before
// them.
func sizeOfEvents(events []*mvccpb.Event) (bytes int) {
	for _, e := range events {
		bytes += len(e.Kv.Key) + len(e.Kv.Value) + len(e.PrevKv.GetValue())
	}
	return bytes
}
