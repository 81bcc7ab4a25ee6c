package admin

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
)

// heartbeat is the default bookmark interval of watches over HTTP. It is short enough that
// no proxy closes the connection as idle.
const heartbeat = 30 * time.Second

// heartbeats is a connection that sets the default bookmark interval.
type heartbeats struct{ grpc.ClientConnInterface }

// NewStream implements grpc.ClientConnInterface.
func (c heartbeats) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(ctx, d, method, o...)
	return heartbeatStream{stream}, err
}

type heartbeatStream struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream.
func (s heartbeatStream) SendMsg(m any) error {
	var watch *fanoutv1.WatchRequest
	switch m := m.(type) {
	case *fanoutv1.WatchRequest:
		watch = m
	case *fanoutv1.SubscribeRequest:
		watch = m.GetStart().GetRequest() // nil: the request starts no watch
	}
	if watch != nil && watch.GetBookmarkInterval() == nil {
		watch.BookmarkInterval = durationpb.New(heartbeat)
	}
	return s.ClientStream.SendMsg(m)
}

// lines marshals messages as JSON, each message of a stream as one line.
type lines struct{ runtime.JSONPb }

// Marshal implements runtime.Marshaler. It writes the boolean results of DELETE requests
// even if they are false.
func (l *lines) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *fanoutv1.PutResponse, *fanoutv1.DeleteResponse, *fanoutv1.EndWatcherResponse:
		return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(v.(proto.Message))
	}
	return l.JSONPb.Marshal(v)
}

// NewDecoder implements runtime.Marshaler.
func (l *lines) NewDecoder(r io.Reader) runtime.Decoder {
	next := l.JSONPb.NewDecoder(r)
	return runtime.DecoderFunc(func(v any) error {
		if err := next.Decode(v); err != nil {
			return err
		}
		return checkNotInPath(v)
	})
}

// newLines returns a marshaler with the same JSON as grpcurl: unset fields are left out,
// and unknown fields are an error.
func newLines() *lines {
	return &lines{runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{},
		UnmarshalOptions: protojson.UnmarshalOptions{},
	}}
}

// StreamContentType implements runtime.StreamContentType.
func (*lines) StreamContentType(any) string { return streamType }

const streamType = "application/x-ndjson"

// streams lets streaming responses last as long as their client reads them. All other
// responses must be read within the timeout.
func streams(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		answered, done := context.WithCancel(context.WithoutCancel(r.Context()))
		defer done()
		ctx = access.UntilAnswered(ctx, answered)
		s := &responseWriter{ResponseWriter: w, timeout: timeout, client: r.Context(), cancel: cancel}
		next.ServeHTTP(s, r.WithContext(context.WithValue(ctx, responseWriterKey{}, s)))
		if s.begun && r.ProtoMajor == 2 {
			// A deadline that was set when the client had just gone would keep the memory of
			// the connection until then. It cannot be cleared if the connection is closed,
			// and then it does not exist.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		}
	})
}

// responseWriter writes the response of the gateway.
type responseWriter struct {
	http.ResponseWriter
	timeout time.Duration   // for responses that are no stream
	client  context.Context // done when the client has gone
	begun   bool            // part of the body was written
	cancel  func()          // ends the request
	failed  *status.Status  // the error that ends a stream, once known
}

type responseWriterKey struct{}

// Unwrap is called by http.ResponseController.
func (s *responseWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter. A stream that fails before it begins gets
// the status of its error.
func (s *responseWriter) WriteHeader(httpCode int) {
	if s.failed != nil {
		setRetryAfter(s.Header(), s.failed)
		httpCode = httpStatus(s.failed)
	}
	if httpCode == http.StatusUnauthorized {
		s.Header().Set("WWW-Authenticate", "Bearer") // the gateway puts the message there
	}
	s.ResponseWriter.WriteHeader(httpCode)
}

// Write implements http.ResponseWriter. It ends the request when its client has gone, and
// returns no error, which the gateway would log.
func (s *responseWriter) Write(b []byte) (int, error) {
	if s.client.Err() != nil {
		return len(b), nil
	}
	if !s.begun && s.Header().Get("Content-Type") != streamType {
		// Setting a deadline fails only without a network.
		_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now().Add(s.timeout))
	}
	s.begun = true
	if _, err := s.ResponseWriter.Write(b); err != nil {
		s.cancel()
	}
	return len(b), nil
}

// FlushError flushes in the same way. http.ResponseController calls it after each line.
func (s *responseWriter) FlushError() error {
	if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
		s.cancel()
	}
	return nil
}

// unlessGone ends a request whose client has gone before its response is encoded.
func unlessGone(ctx context.Context, _ http.ResponseWriter, _ proto.Message) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// noteStreamError remembers the error that ends a stream.
func noteStreamError(ctx context.Context, err error) *status.Status {
	st := status.Convert(err) // an error of the gateway comes before the stream begins
	if s, ok := ctx.Value(responseWriterKey{}).(*responseWriter); ok {
		s.failed = st
	}
	return st
}
