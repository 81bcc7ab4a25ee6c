package embedded

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// liveBytes is the size of the changes after which a response is not extended.
const liveBytes = 1 << 20

// Live is a watch of the keys from first on and before end. It takes changes where etcd's API takes
// them. Through the API and its client, each change would pass five goroutines, alone. A reader of a
// Live gets all changes at once that have happened since its last read.
//
// One goroutine at a time uses it, except for RequestProgress.
type Live struct {
	member     *Member
	first, end string
	previous   bool
	stream     mvcc.WatchStream
	held       *mvcc.WatchResponse // the next response, which ended the last one
}

// Live returns a watch that is not open yet. Previous adds the record before each change.
func (m *Member) Live(first, end string, previous bool) *Live {
	return &Live{member: m, first: first, end: end, previous: previous, stream: m.etcd.Server.Watchable().NewWatchStream()}
}

// Open begins the watch after a revision.
func (l *Live) Open(after int64) error {
	// etcd would end the trace of a context with the watch.
	_, err := l.stream.Watch(context.Background(), clientv3.AutoWatchID, []byte(l.first), []byte(l.end), after+1)
	return err
}

// Changes returns the channel of the next response, for Response. A nil Live has none.
func (l *Live) Changes() <-chan mvcc.WatchResponse {
	switch {
	case l == nil:
		return nil
	case l.held == nil:
		return l.stream.Chan()
	}
	held := make(chan mvcc.WatchResponse, 1)
	held <- *l.held
	l.held = nil
	return held
}

// Response returns a response as etcd's client would, with the changes of those that have arrived
// after it. The error is that of a watch of etcd.
func (l *Live) Response(r mvcc.WatchResponse) (*clientv3.WatchResponse, error) {
	resp := &clientv3.WatchResponse{Header: &pb.ResponseHeader{Revision: r.Revision}}
	bytes := 0
	for {
		mvcc.ReportEventReceived(len(r.Events))
		if r.CompactRevision != 0 {
			return nil, rpctypes.ErrCompacted
		}
		if len(r.Events) == 0 { // the answer to RequestProgress
			return resp, nil
		}
		first := len(resp.Events)
		for _, e := range r.Events {
			if l.previous {
				e = &mvccpb.Event{Type: e.Type, Kv: e.Kv} // etcd's own is shared by all watches
			}
			resp.Events = append(resp.Events, e)
		}
		if l.previous {
			addPrevious(context.Background(), l.member.etcd.Server.KV(), resp.Events[first:])
		}
		for _, e := range resp.Events[first:] {
			bytes += len(e.Kv.Key) + len(e.Kv.Value) + len(e.PrevKv.GetValue())
		}
		if bytes >= liveBytes || !l.more(&r) {
			return resp, nil
		}
	}
}

// more replaces r with the next response, if that has arrived and has changes.
func (l *Live) more(r *mvcc.WatchResponse) bool {
	select {
	case next, ok := <-l.stream.Chan():
		if !ok {
			return false
		}
		if len(next.Events) == 0 {
			l.held = &next
			return false
		}
		*r = next
		return true
	default:
		return false
	}
}

// RequestProgress requests a response without changes. Any goroutine may call it. A member of several
// without a leader does not answer: it may be far behind the others, and the response would
// confirm that it is not. TestLossOfTheMajority finds that.
func (l *Live) RequestProgress() {
	if !l.member.HasLeader() {
		return
	}
	_ = l.member.During(func() error {
		l.stream.RequestProgressAll()
		return nil
	})
}

// Close ends the watch.
func (l *Live) Close() {
	_ = l.member.During(func() error {
		l.stream.Close()
		for r := range l.stream.Chan() {
			mvcc.ReportEventReceived(len(r.Events))
		}
		return nil
	})
}
