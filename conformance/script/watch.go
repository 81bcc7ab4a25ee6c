package script

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// minPing is how often a client may ping.
const minPing = time.Second

// Attempt is a watch that was refused.
type Attempt struct {
	Name       string
	At         time.Time
	Connection int
}

// Report is a report of the client about a watch.
type Report struct {
	Applied, Attempted *fanoutv1.Position
	Error              *spb.Status
	FailedKeys         []string
	At                 time.Time // when it came
}

// Watch is a watch that the client has opened.
type Watch struct {
	Request    *fanoutv1.WatchRequest
	Opened     time.Time
	Connection int     // the number of its connection, from 1
	Stream     *Stream // nil: the client uses the Watch method
	ID         uint64  // on the stream

	Authorization string // the metadata of the request

	server *Server
	conn   *conn
	send   func(Message) error
	end    chan error // capacity 1: how the script ends the watch

	reports []Report      // guarded by server.mu
	refuse  []error       // the answers to the next reports with the method Report; guarded by server.mu
	over    chan struct{} // closed when the client has gone or has stopped the watch
	once    sync.Once
}

func newWatch(s *Server, req *fanoutv1.WatchRequest) *Watch {
	return &Watch{Request: req, Opened: time.Now(), server: s, end: make(chan error, 1), over: make(chan struct{})}
}

// Name returns the prefix of the watch.
func (w *Watch) Name() string { return nameOf(w.Request) }

// Send sends messages. It waits while the client does not read. After the client has gone, it does
// nothing.
func (w *Watch) Send(messages ...Message) {
	for _, m := range messages {
		w.server.note(w.Name(), m)
		if w.send(m) != nil {
			return // the scenario sees that the client does not get what it expects
		}
	}
}

// End ends the watch. Nil is the status OK.
func (w *Watch) End(err error) {
	if w.Stream != nil {
		w.Stream.endWatch(w, err)
		return
	}
	w.end <- err
}

// Refuse answers the start of the watch with an error. Nothing may have been sent.
func (w *Watch) Refuse(err error) {
	if w.Stream == nil {
		w.end <- err
		return
	}
	if w.Stream.remove(w.ID) == w {
		w.gone()
		_ = w.Stream.Send(refused(w.ID, err)) // fails if the client has gone
	}
}

// Cut closes the connection of the watch.
func (w *Watch) Cut() { w.conn.hangUp() }

// GoAway sends GOAWAY on the connection of the watch: the client must use another one for new streams. The watches of
// this one go on. It returns when GOAWAY was sent, or the connection is closed.
func (w *Watch) GoAway() {
	w.server.done.Go(w.conn.server.GracefulStop)
	select {
	case <-w.conn.goneAway:
	case <-w.conn.closed:
	}
}

// HalfOpen makes the connection of the watch silent in both directions. It stays open for the client.
func (w *Watch) HalfOpen() { w.conn.halfOpen() }

// Gone is closed when the client has gone, or has stopped the watch.
func (w *Watch) Gone() <-chan struct{} { return w.over }

func (w *Watch) gone() { w.once.Do(func() { close(w.over) }) }

// RefuseReports makes the next reports fail, one with each error. The client must use the method Report.
func (w *Watch) RefuseReports(errs ...error) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.refuse = errs
}

// report notes a report, and returns the answer.
func (w *Watch) report(r Report) (answer error) {
	r.At = time.Now()
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.reports = append(w.reports, r)
	if len(w.refuse) > 0 {
		answer, w.refuse = w.refuse[0], w.refuse[1:]
	}
	w.server.signal()
	return answer
}

// Reports returns the reports about the watch so far.
func (w *Watch) Reports() []Report {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	return append([]Report(nil), w.reports...)
}

// AwaitReport waits for a report.
func (w *Watch) AwaitReport(ctx context.Context, is func(Report) bool) error {
	return w.server.await(ctx, func() bool { return slices.ContainsFunc(w.reports, is) })
}

// Stream is a Subscribe stream.
type Stream struct {
	server *Server
	rpc    grpc.BidiStreamingServer[fanoutv1.SubscribeRequest, fanoutv1.SubscribeResponse]
	end    chan error // capacity 1: how the script ends the stream

	sending sync.Mutex // orders responses

	mu      sync.Mutex
	watches map[uint64]*Watch // guarded by mu
	delayed bool              // watches that the client stops wait for their end; guarded by mu
	ends    []uint64          // of such watches, by their ids; guarded by mu
}

// DelayEnds makes watches that the client stops wait for their end, until SendEnds.
func (st *Stream) DelayEnds() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.delayed = true
}

// SendEnds sends the ends that were delayed.
func (st *Stream) SendEnds() {
	st.mu.Lock()
	ends := st.ends
	st.delayed, st.ends = false, nil
	st.mu.Unlock()
	for _, id := range ends {
		_ = st.Send(ended(id, nil)) // fails if the client has gone
	}
}

// delays reports whether the end of a watch is delayed.
func (st *Stream) delays(id uint64) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.delayed {
		st.ends = append(st.ends, id)
	}
	return st.delayed
}

// Send sends a response.
func (st *Stream) Send(r *fanoutv1.SubscribeResponse) error {
	for _, e := range r.GetEntries() {
		for _, id := range e.GetWatchIds() {
			if w := st.find(id); w != nil && e.GetResponse() != nil {
				st.server.note(w.Name(), e.GetResponse())
			}
		}
	}
	st.sending.Lock()
	defer st.sending.Unlock()
	return st.rpc.Send(r)
}

// sendTo sends a message of one watch, unless the watch has ended.
func (st *Stream) sendTo(w *Watch, m Message) error {
	st.sending.Lock()
	defer st.sending.Unlock()
	if st.find(w.ID) != w {
		return errors.New("the watch has ended")
	}
	return st.rpc.Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{{
		WatchIds: []uint64{w.ID}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: m},
	}}})
}

// End ends the stream, and with it all its watches.
func (st *Stream) End(err error) { st.end <- err }

// read handles requests until the client closes its side.
func (st *Stream) read() error {
	for first := true; ; first = false {
		req, err := st.rpc.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has closed its side or has gone
		}
		if err := st.handle(req, first); err != nil {
			return err
		}
	}
}

// handle handles a request. An error ends the stream, as a real server would.
func (st *Stream) handle(req *fanoutv1.SubscribeRequest, first bool) error {
	switch r := req.GetRequest().(type) {
	case *fanoutv1.SubscribeRequest_Subscriber:
		if !first {
			return Refusal(codes.InvalidArgument, "INVALID_REQUEST")
		}
	case *fanoutv1.SubscribeRequest_Start_:
		return st.start(r.Start)
	case *fanoutv1.SubscribeRequest_Stop_:
		if w := st.remove(r.Stop.GetWatchId()); w != nil {
			delayed := st.delays(w.ID)
			w.gone()
			if !delayed {
				return st.Send(ended(w.ID, nil))
			}
		}
	case *fanoutv1.SubscribeRequest_Report_:
		if w := st.find(r.Report.GetWatchId()); w != nil {
			return w.report(Report{
				Applied: r.Report.GetApplied(), Attempted: r.Report.GetAttempted(), Error: r.Report.GetError(), FailedKeys: r.Report.GetFailedKeys(),
			})
		}
	default:
		return Refusal(codes.InvalidArgument, "INVALID_REQUEST")
	}
	return nil
}

func (st *Stream) start(start *fanoutv1.SubscribeRequest_Start) error {
	w := newWatch(st.server, start.GetRequest())
	w.Stream, w.ID = st, start.GetWatchId()
	w.send = func(m Message) error { return st.sendTo(w, m) }
	st.mu.Lock()
	inUse := st.watches[w.ID] != nil
	if !inUse {
		st.watches[w.ID] = w
	}
	st.mu.Unlock()
	var err error
	if inUse {
		err = Refusal(codes.AlreadyExists, "WATCH_ID_IN_USE")
	} else if err = st.server.admit(st.rpc.Context(), w); err != nil {
		st.remove(w.ID)
	}
	if err == nil {
		st.server.offer(w)
		return nil
	}
	return st.Send(refused(w.ID, err))
}

func (st *Stream) find(id uint64) *Watch {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.watches[id]
}

func (st *Stream) remove(id uint64) *Watch {
	st.mu.Lock()
	defer st.mu.Unlock()
	w := st.watches[id]
	delete(st.watches, id)
	return w
}

func (st *Stream) endWatch(w *Watch, err error) {
	if st.find(w.ID) == w {
		st.remove(w.ID)
		w.gone()
		_ = st.Send(ended(w.ID, err)) // fails if the client has gone
	}
}

func refused(id uint64, err error) *fanoutv1.SubscribeResponse {
	return &fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{{
		WatchIds: []uint64{id}, Content: &fanoutv1.SubscribeResponse_Entry_Refused{Refused: status.Convert(err).Proto()},
	}}}
}

func ended(id uint64, err error) *fanoutv1.SubscribeResponse {
	return &fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{{
		WatchIds: []uint64{id}, Content: &fanoutv1.SubscribeResponse_Entry_Ended{Ended: status.Convert(err).Proto()},
	}}}
}

// gone is called when the stream has ended.
func (st *Stream) gone() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, w := range st.watches {
		w.gone()
	}
	clear(st.watches)
}
