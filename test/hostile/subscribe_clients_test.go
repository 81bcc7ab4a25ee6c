package hostile

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// The kinds of attacks over Subscribe.
const (
	subscribeNeverRead kind = "watches of Subscribe streams that are never read"
	subscribeWantAll   kind = "watches of Subscribe streams that take everything"
	subscribeInSilence kind = "Subscribe streams that say nothing, or not enough"
	startAndStop       kind = "watches of a Subscribe stream that are started and stopped"
	startWrongly       kind = "starts that are refused, whose refusals are read or not"
	requestAlways      kind = "reports and large requests without end"

	// These are storms. The streams of a connection are watches of its Subscribe stream.
	restartAlways  kind = "watches of Subscribe streams that are stopped at once"
	startSnapshots kind = "watches of Subscribe streams with a snapshot, started at once, that are not read"
	startFromNow   kind = "watches of Subscribe streams from now on, started at once"
)

const (
	// watchesPerStream is the number of watches of a Subscribe stream that lasts.
	watchesPerStream = 100

	// idsPerStream is the number of ids of a Subscribe stream whose watches are started and stopped.
	// Half of them are in use.
	idsPerStream = 400
)

// subscribe opens a Subscribe stream. It reads it only if reads is set.
func subscribe(ctx context.Context, conn *grpc.ClientConn, group *sync.WaitGroup, reads bool, opts ...grpc.CallOption) (fanoutv1.FanoutService_SubscribeClient, error) {
	stream, err := fanoutv1.NewFanoutServiceClient(conn).Subscribe(ctx, opts...)
	if err == nil && reads {
		group.Go(func() {
			for {
				if _, err := stream.Recv(); err != nil {
					return
				}
			}
		})
	}
	return stream, err
}

func startOf(id uint64, req *fanoutv1.WatchRequest) *fanoutv1.SubscribeRequest {
	return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{
		Start: &fanoutv1.SubscribeRequest_Start{WatchId: id, Request: req},
	}}
}

func stopOf(id uint64) *fanoutv1.SubscribeRequest {
	return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Stop_{Stop: &fanoutv1.SubscribeRequest_Stop{WatchId: id}}}
}

func reportOf(id uint64, revision int64) *fanoutv1.SubscribeRequest {
	return &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{
		Report: &fanoutv1.SubscribeRequest_Report{WatchId: id, Applied: &fanoutv1.Position{Epoch: "e", Revision: revision}},
	}}
}

// subscribeMany opens Subscribe streams that last, with a.Size watches in all.
func (a *attack) subscribeMany(ctx context.Context, group *sync.WaitGroup) error {
	for i := range max(1, a.Size/watchesPerStream) {
		conn := a.dial(i)
		a.conns = append(a.conns, conn)
		stream, err := subscribe(ctx, conn, group, a.Kind == subscribeWantAll)
		if err != nil {
			return err
		}
		for id := range uint64(watchesPerStream) {
			req := &fanoutv1.WatchRequest{Resource: resource}
			if a.Kind == subscribeWantAll {
				req.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
				req.OmitValues = id%2 == 0
			}
			if err := stream.Send(startOf(id, req)); err != nil {
				a.refused.Add(1)
				break
			}
			a.begun.Add(1)
		}
	}
	return nil
}

// subscribeSilently opens a.Size Subscribe streams. Half of them send nothing. The others send the
// beginning of a request.
func (a *attack) subscribeSilently(ctx context.Context, group *sync.WaitGroup) error {
	for i := range max(1, a.Size/perConnection) {
		c, err := a.openRaw(ctx, i, 1<<16-1)
		if err != nil {
			return err
		}
		a.conns = append(a.conns, c)
		group.Go(func() { a.readCalm(c) })
		context.AfterFunc(ctx, func() { _ = c.Close() })
		block := a.block()
		for n := range uint32(perConnection) {
			err := c.framer.WriteHeaders(headers(2*n+1, block))
			if err == nil && n%2 == 1 {
				err = c.framer.WriteData(2*n+1, false, []byte{0, 0, 0, 0xff, 0xff, 'x'}) // a byte of 64 KiB
			}
			if err == nil {
				err = c.flush()
			}
			if err != nil {
				return err
			}
			a.begun.Add(1)
		}
	}
	return nil
}

// subscribeAgain sends requests on one stream as fast as it can. If the stream ends, it opens
// another one, on another connection, until ctx ends.
func (a *attack) subscribeAgain(ctx context.Context, i int) {
	isOdd := i%2 == 1
	for ; ctx.Err() == nil; i += loops {
		conn := a.dial(i)
		var reading sync.WaitGroup
		stream, err := subscribe(ctx, conn, &reading, a.Kind != startWrongly || isOdd)
		for n := uint64(0); err == nil; n++ {
			for _, req := range a.requests(n, isOdd) {
				if err = stream.Send(req); err != nil {
					break
				}
			}
			a.begun.Add(1)
		}
		if ctx.Err() == nil {
			a.refused.Add(1)
		}
		_ = conn.Close()
		reading.Wait()
	}
}

// requests returns the n-th requests of a stream. Half of the streams are odd.
func (a *attack) requests(n uint64, isOdd bool) []*fanoutv1.SubscribeRequest {
	everything := &fanoutv1.WatchRequest{Resource: resource}
	fromNow := &fanoutv1.WatchRequest{Resource: resource, Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}}
	switch {
	case a.Kind == startAndStop:
		return []*fanoutv1.SubscribeRequest{startOf(n%idsPerStream, everything), stopOf((n + idsPerStream/2) % idsPerStream)}
	case a.Kind == startWrongly && isOdd: // the ids are in use
		return []*fanoutv1.SubscribeRequest{startOf(n%idsPerStream, fromNow)}
	case a.Kind == startWrongly:
		return []*fanoutv1.SubscribeRequest{startOf(n, &fanoutv1.WatchRequest{Resource: "unknown"})}
	case isOdd && n == 0:
		return []*fanoutv1.SubscribeRequest{startOf(0, fromNow)}
	case isOdd:
		return []*fanoutv1.SubscribeRequest{reportOf(0, int64(n)), reportOf(n, 1)}
	}
	return []*fanoutv1.SubscribeRequest{startOf(n, &fanoutv1.WatchRequest{Resource: resource, LabelSelector: strings.Repeat("a", 60<<10)})}
}

// restart starts watches of a Subscribe stream and stops each at once. It connects again when the
// server closes the connection, until ctx ends.
func (a *attack) restart(ctx context.Context, i int) {
	for ctx.Err() == nil {
		conn := a.dial(i)
		stream, err := subscribe(ctx, conn, nil, false)
		var reading sync.WaitGroup
		if err == nil {
			reading.Go(func() { a.awaitCalm(stream) })
		}
		for id := uint64(0); err == nil; id = (id + 1) % 8 {
			if err = stream.Send(startOf(id, a.request())); err == nil {
				err = stream.Send(stopOf(id))
			}
			a.begun.Add(1)
		}
		_ = conn.Close()
		reading.Wait()
		if err != nil {
			a.pause(ctx)
		}
	}
}

// awaitCalm reads a stream until it ends, and counts the end of its connection with
// ENHANCE_YOUR_CALM as a refusal.
func (a *attack) awaitCalm(stream fanoutv1.FanoutService_SubscribeClient) {
	for {
		_, err := stream.Recv()
		if err == nil {
			continue
		}
		if strings.Contains(err.Error(), http2.ErrCodeEnhanceYourCalm.String()) {
			a.refused.Add(1)
			a.calmed()
		}
		return
	}
}

// startAtOnce starts watches of one Subscribe stream as fast as it can, and holds them until ctx
// ends. A watch that has got a message counts as accepted.
//
// If the watches have a snapshot, the client does not read before the attack is over. Then it stops
// all watches, so that it need not read the snapshots, and reads the answer to each start. A watch
// that ends because of its stop counts as accepted.
func (a *attack) startAtOnce(ctx context.Context, i int) {
	allAnswered := sync.OnceFunc(a.unanswered.Done)
	defer allAnswered()
	conn := a.dial(i)
	defer conn.Close()
	stream, err := subscribe(ctx, conn, nil, false, grpc.WaitForReady(true))
	if err != nil {
		a.ended(ctx, err)
		return
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		for id := range uint64(a.Streams) {
			if stream.Send(startOf(id, a.request())) != nil {
				return
			}
			a.begun.Add(1)
		}
		if a.Kind != startSnapshots || !a.awaitOver(ctx) {
			return
		}
		for id := range uint64(a.Streams) {
			if stream.Send(stopOf(id)) != nil {
				return
			}
		}
	})
	if a.Kind == startSnapshots && !a.awaitOver(ctx) {
		return
	}
	for answered := map[uint64]bool{}; ; {
		resp, err := stream.Recv()
		if err != nil {
			a.ended(ctx, err)
			return
		}
		for _, e := range resp.GetEntries() {
			for _, id := range e.GetWatchIds() {
				answer := cmp.Or(e.GetRefused(), e.GetEnded())
				switch {
				case e.GetResponse() != nil && (answered[id] || a.Kind == startSnapshots):
					continue
				case e.GetResponse() != nil, e.GetEnded() != nil && answer.GetCode() == 0 && !answered[id]:
					a.accepted.Add(1)
				default:
					a.countRefusal(reasonIn(answer))
				}
				answered[id] = true
			}
		}
		if len(answered) == a.Streams {
			allAnswered()
		}
	}
}

// awaitOver waits until the attack is over. It returns false if ctx has ended before.
func (a *attack) awaitOver(ctx context.Context) bool {
	select {
	case <-a.over:
		return true
	case <-ctx.Done():
		return false
	}
}
