package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/conformance/script"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// fault is one thing that the test client does wrong. Some faults are in the test client; the functions of
// the others change what the client under test sends and receives.
type fault struct {
	name     string
	request  func(*fanoutv1.WatchRequest)
	response func(*fanoutv1.WatchResponse)
	failure  func(error) error // changes the status of a stream or of a watch
	stream   func(s grpc.ClientStream, cancel context.CancelFunc) grpc.ClientStream
	open     func(context.Context) context.Context // called before a stream is opened
	retries  int                                   // of a stream that fails; the client does not see them
	delay    func(error) time.Duration             // before a retry; nil: none
	opened   atomic.Int64                          // streams
}

var faults = map[string]*fault{
	"early":           {},
	"keep-replaced":   {},
	"strict-events":   {},
	"strict-deletes":  {},
	"no-absence":      {},
	"no-state":        {},
	"state-elsewhere": {},
	"silent-damage":   {},
	"position-only":   {},
	"no-sharing":      {},
	"go-back":         {},
	"same-connection": {},

	"no-position": {request: func(r *fanoutv1.WatchRequest) { r.Begin = nil }},
	"no-latest":   {request: func(r *fanoutv1.WatchRequest) { r.Delivery = 0 }},
	"delta-as-replay": {response: func(m *fanoutv1.WatchResponse) {
		if m.GetCatchUp() == fanoutv1.WatchResponse_CATCH_UP_DELTA {
			m.CatchUp = fanoutv1.WatchResponse_CATCH_UP_REPLAY
		}
	}},
	"ignore-draining": {response: func(m *fanoutv1.WatchResponse) {
		if m.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING {
			m.Kind = fanoutv1.WatchResponse_KIND_BOOKMARK
		}
	}},
	"ignore-partial": {response: func(m *fanoutv1.WatchResponse) { m.Partial = false }},
	"strict-kinds": {response: func(m *fanoutv1.WatchResponse) {
		if _, known := fanoutv1.WatchResponse_Kind_name[int32(m.GetKind())]; !known {
			panic("unknown kind of message")
		}
	}},
	"strict-catch-ups": {response: func(m *fanoutv1.WatchResponse) {
		if _, known := fanoutv1.WatchResponse_CatchUp_name[int32(m.GetCatchUp())]; !known {
			panic("unknown kind of catch-up")
		}
	}},
	"strict-ages": {response: func(m *fanoutv1.WatchResponse) {
		if m.GetAge() != nil {
			panic("the message has an age")
		}
	}},
	"ignore-epochs": {response: func(m *fanoutv1.WatchResponse) { m.Position.Epoch = "e1" }},
	"keep-position": {failure: replace(codes.OutOfRange, codes.Unavailable)},
	"retry-final":   {failure: replace(codes.PermissionDenied, codes.Unavailable)},
	"no-delay": {failure: func(err error) error {
		return status.Error(status.Code(err), "without details")
	}},
	"hammer":      {retries: 20},
	"fixed-delay": {retries: 20, delay: func(error) time.Duration { return 300 * time.Millisecond }},
	"exact-delay": {retries: 20, delay: retryDelay},
	"slow-open": {open: func(ctx context.Context) context.Context {
		<-time.After(time.Second)
		return ctx
	}},
	"always-at-once": {response: func(m *fanoutv1.WatchResponse) {
		m.ResumeAtOnce = m.GetKind() == fanoutv1.WatchResponse_KIND_DRAINING
	}},
	"leak": {stream: func(s grpc.ClientStream, _ context.CancelFunc) grpc.ClientStream {
		return deafStream{s}
	}},
	"impatient": {stream: func(s grpc.ClientStream, cancel context.CancelFunc) grpc.ClientStream {
		return &impatientStream{ClientStream: s, cancel: cancel, later: 1.2}
	}},
	"hasty": {stream: func(s grpc.ClientStream, cancel context.CancelFunc) grpc.ClientStream {
		return &impatientStream{ClientStream: s, cancel: cancel, first: 3}
	}},
	"patient": {stream: func(s grpc.ClientStream, _ context.CancelFunc) grpc.ClientStream {
		return newQueuedStream(s, 4*time.Second)
	}},
	"read-ahead": {stream: func(s grpc.ClientStream, _ context.CancelFunc) grpc.ClientStream {
		return newQueuedStream(s, 0)
	}},
	"no-announcement":   {request: func(r *fanoutv1.WatchRequest) { r.Reports = false }},
	"flood-reports":     {},
	"eager-reports":     {},
	"no-errors":         {},
	"report-past-error": {},
	"late-return":       {},
	"first-reports":     {},
	"no-keys":           {},
	"first-keys":        {},
	"strict-entries":    {},
	"refuse-all":        {},
	"early-restart":     {},

	"early-sync":  {},
	"never-stale": {},
	"no-labels":   {},
	"only-text":   {},
	"no-deletes":  {},
	"in-place":    {},
	"fixed-token": {},
	"no-pings":    {},
	"ageless":     {response: func(m *fanoutv1.WatchResponse) { m.Age = nil }},
	"now-again": {request: func(r *fanoutv1.WatchRequest) {
		if r.GetAfter() == nil {
			r.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
		}
	}},
	"skip-events":  {request: func(r *fanoutv1.WatchRequest) { r.EveryEvent = false }},
	"no-selectors": {request: func(r *fanoutv1.WatchRequest) { r.LabelSelector, r.FieldSelector = "", "" }},
	"never-back": {response: func(m *fanoutv1.WatchResponse) {
		if m.GetKind() == fanoutv1.WatchResponse_KIND_BOOKMARK {
			m.Kind = fanoutv1.WatchResponse_KIND_LIVE
		}
	}},
	"trust-proxies": {failure: func(err error) error {
		if status.Code(err) == codes.NotFound {
			return script.Refusal(codes.NotFound, "UNKNOWN_RESOURCE")
		}
		return err
	}},
	"stay-away":   {},
	"never-reset": {},
	"strict-ids":  {},
}

// The streams after which a client with the fault never-reset waits before each, and how long.
const (
	tirelessStreams = 100
	tiredDelay      = 3 * time.Second
)

func faultNames() []string { return slices.Sorted(maps.Keys(faults)) }

func init() {
	for name, f := range faults {
		f.name = name
	}
}

func (f *fault) is(name string) bool { return f != nil && f.name == name }

func replace(from, to codes.Code) func(error) error {
	return func(err error) error {
		if status.Code(err) == from {
			return status.Error(to, "replaced")
		}
		return err
	}
}

// retryDelay returns the delay of RetryInfo.
func retryDelay(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// wait waits before a retry.
func (f *fault) wait(err error) {
	if f.delay != nil {
		<-time.After(f.delay(err))
	}
}

// options returns the options of a client with the fault.
func (f *fault) options() []client.Option {
	if f == nil {
		return nil
	}
	return []client.Option{client.WithDialOptions(grpc.WithChainStreamInterceptor(f.intercept), grpc.WithChainUnaryInterceptor(f.interceptReport))}
}

func (f *fault) intercept(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	if f.open != nil {
		ctx = f.open(ctx)
	}
	if f.is("never-reset") && f.opened.Load() > tirelessStreams {
		<-time.After(tiredDelay)
	}
	if f.is("stay-away") && f.opened.Load() > 1 { // the first one finds out that there is no Subscribe
		<-ctx.Done()
	}
	first := int64(0)
	if method == fanoutv1.FanoutService_Watch_FullMethodName {
		first = 1 // after Subscribe, which the server lacks
	}
	if f.is("late-return") && f.opened.Load() > first {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
	}
	if f.is("same-connection") {
		same, err := sameConnection(cc)
		if err != nil {
			return nil, err
		}
		open = func(ctx context.Context, d *grpc.StreamDesc, _ *grpc.ClientConn, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
			return same.NewStream(ctx, d, method, o...)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	reopen := func() (grpc.ClientStream, error) { return open(ctx, d, cc, method, o...) }
	s, err := reopen()
	for n := 0; n < f.retries && err != nil; n++ {
		f.wait(err)
		s, err = reopen()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	if f.stream != nil {
		s = f.stream(s, cancel)
	}
	return &faultyStream{ClientStream: s, fault: f, number: f.opened.Add(1), cancel: cancel, reopen: reopen, retries: f.retries}, nil
}

// interceptReport changes the reports of clients that use Watch.
func (f *fault) interceptReport(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	report, ok := req.(*fanoutv1.ReportRequest)
	if !ok {
		return invoke(ctx, method, req, reply, cc, o...)
	}
	times := f.changeReport(&report.Applied, report.GetAttempted(), &report.Error, &report.FailedKeys)
	var err error
	for range times {
		err = invoke(ctx, method, req, reply, cc, o...)
	}
	return err
}

// changeReport changes the fields of a report, and returns how often it is sent.
func (f *fault) changeReport(applied **fanoutv1.Position, attempted *fanoutv1.Position, failure **spb.Status, failedKeys *[]string) (times int) {
	switch f.name {
	case "flood-reports":
		return 5
	case "no-errors":
		*failure = nil
	case "report-past-error":
		if *failure != nil {
			*applied = attempted
		}
	case "no-keys":
		*failedKeys = nil
	case "first-keys":
		for n := 0; *failure != nil && n < 32 && len(*failedKeys) < 32; n++ {
			*failedKeys = append(*failedKeys, fmt.Sprintf("a/%02d", n))
		}
	}
	return 1
}

// faultyStream is a stream of Watch or Subscribe with a fault.
type faultyStream struct {
	grpc.ClientStream
	fault   *fault
	cancel  context.CancelFunc
	number  int64 // in the order of opening
	reopen  func() (grpc.ClientStream, error)
	retries int
	request any // the first request

	mu      sync.Mutex
	stopped map[uint64]bool // watches that have not ended yet; guarded by mu
}

// SendMsg implements grpc.ClientStream.
func (s *faultyStream) SendMsg(m any) error {
	if s.request == nil {
		s.request = m
	}
	switch m := m.(type) {
	case *fanoutv1.WatchRequest:
		s.change(m)
	case *fanoutv1.SubscribeRequest:
		if start := m.GetStart(); start != nil {
			s.change(start.GetRequest())
		}
		if stop := m.GetStop(); stop != nil {
			s.stopWatch(stop.GetWatchId())
		}
		if report := m.GetReport(); report != nil {
			return s.sendReport(report, m)
		}
	}
	return s.ClientStream.SendMsg(m)
}

func (s *faultyStream) stopWatch(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil {
		s.stopped = map[uint64]bool{}
	}
	s.stopped[id] = true
}

// checkIDs panics if an entry belongs to a watch that was stopped.
func (s *faultyStream) checkIDs(e *fanoutv1.SubscribeResponse_Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range e.GetWatchIds() {
		if s.stopped[id] && e.GetResponse() != nil {
			panic("an entry of a watch that was stopped")
		}
	}
}

func (s *faultyStream) change(req *fanoutv1.WatchRequest) {
	if s.fault.request != nil {
		s.fault.request(req)
	}
}

func (s *faultyStream) sendReport(report *fanoutv1.SubscribeRequest_Report, m any) error {
	if s.fault.is("first-reports") && s.number > 1 {
		return nil
	}
	for range s.fault.changeReport(&report.Applied, report.GetAttempted(), &report.Error, &report.FailedKeys) {
		if err := s.ClientStream.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *faultyStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	for err != nil && err != io.EOF && s.retries > 0 && status.Code(err) != codes.Canceled && status.Code(err) != codes.Unimplemented {
		s.retries--
		s.fault.wait(err)
		again, failed := s.reopen()
		if failed != nil {
			err = failed
			continue
		}
		s.ClientStream = again
		if err = again.SendMsg(s.request); err == nil {
			err = again.CloseSend()
		}
		if err == nil {
			err = again.RecvMsg(m)
		}
	}
	if err != nil {
		s.cancel()
		if s.fault.failure != nil && err != io.EOF {
			err = s.fault.failure(err)
		}
		return err
	}
	switch m := m.(type) {
	case *fanoutv1.WatchResponse:
		s.receive(m)
	case *fanoutv1.SubscribeResponse:
		return s.receiveEntries(m)
	}
	return nil
}

func (s *faultyStream) receive(m *fanoutv1.WatchResponse) {
	if s.fault.response != nil {
		s.fault.response(m)
	}
}

func (s *faultyStream) receiveEntries(m *fanoutv1.SubscribeResponse) error {
	for _, e := range m.GetEntries() {
		if s.fault.is("strict-ids") {
			s.checkIDs(e)
		}
		switch c := e.GetContent().(type) {
		case *fanoutv1.SubscribeResponse_Entry_Response:
			s.receive(c.Response)
		case *fanoutv1.SubscribeResponse_Entry_Refused:
			if s.fault.is("refuse-all") {
				return status.ErrorProto(c.Refused)
			}
			if s.fault.is("early-restart") {
				c.Refused.Details = nil
			}
			if s.fault.failure != nil {
				c.Refused = status.Convert(s.fault.failure(status.ErrorProto(c.Refused))).Proto()
			}
		case *fanoutv1.SubscribeResponse_Entry_Ended:
			if s.fault.failure != nil && c.Ended.GetCode() != 0 {
				c.Ended = status.Convert(s.fault.failure(status.ErrorProto(c.Ended))).Proto()
			}
		default:
			if s.fault.is("strict-entries") {
				panic("unknown entry")
			}
		}
	}
	return nil
}

// deafStream does not end watches.
type deafStream struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream.
func (s deafStream) SendMsg(m any) error {
	if req, ok := m.(*fanoutv1.SubscribeRequest); ok && req.GetStop() != nil {
		return nil
	}
	return s.ClientStream.SendMsg(m)
}
