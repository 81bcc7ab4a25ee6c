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
)

// heartbeat is how often a watch over HTTP says something if its client does not
// ask for anything else: often enough that no proxy takes it for idle.
const heartbeat = 30 * time.Second

// heartbeats is a connection that asks for them.
type heartbeats struct{ grpc.ClientConnInterface }

// NewStream implements grpc.ClientConnInterface.
func (c heartbeats) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(ctx, d, method, o...)
	return beating{stream}, err
}

type beating struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream.
func (s beating) SendMsg(m any) error {
	if req, ok := m.(*fanoutv1.WatchRequest); ok && req.GetBookmarkInterval() == nil {
		req.BookmarkInterval = durationpb.New(heartbeat)
	}
	return s.ClientStream.SendMsg(m)
}

// lines turns messages into JSON, those of a stream into a line each.
type lines struct{ runtime.JSONPb }

// Marshal implements runtime.Marshaler. Where a field says whether there was anything
// to be done, it says so also if there was not.
func (l *lines) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *fanoutv1.DeleteResponse, *fanoutv1.EndWatcherResponse:
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
		return repeats(v)
	})
}

// newLines returns what says the same in JSON as grpcurl does: fields that are not
// set are left out, and fields that do not exist are an error.
func newLines() *lines {
	return &lines{runtime.JSONPb{
		MarshalOptions:   protojson.MarshalOptions{},
		UnmarshalOptions: protojson.UnmarshalOptions{},
	}}
}

// StreamContentType implements runtime.StreamContentType.
func (*lines) StreamContentType(any) string { return streamType }

const streamType = "application/x-ndjson"

// streams prepares for responses that may go on for hours. Others have to be read in
// time.
func streams(timeout time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, gone := context.WithCancel(r.Context())
		defer gone()
		s := &sink{ResponseWriter: w, timeout: timeout, gone: gone}
		next.ServeHTTP(s, r.WithContext(context.WithValue(ctx, sinkKey{}, s)))
	})
}

// sink is where a response goes.
type sink struct {
	http.ResponseWriter
	timeout time.Duration  // for what is no stream
	begun   bool           // something was written
	gone    func()         // ends the request
	failed  *status.Status // with what a stream ends, once that is known
}

type sinkKey struct{}

// Unwrap gives http.ResponseController the rest.
func (s *sink) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader gives a stream that fails before it begins the status that any other
// request would have.
func (s *sink) WriteHeader(httpCode int) {
	if s.failed != nil {
		setRetryAfter(s.Header(), s.failed)
		httpCode = httpStatus(s.failed)
	}
	if httpCode == http.StatusUnauthorized {
		s.Header().Set("WWW-Authenticate", "Bearer") // the gateway puts the message there
	}
	s.ResponseWriter.WriteHeader(httpCode)
}

// Write ends the request when its client has gone. That is no error, and the gateway
// would log it as one.
func (s *sink) Write(b []byte) (int, error) {
	if !s.begun && s.Header().Get("Content-Type") != streamType {
		// Where there is no deadline to set, there is no network.
		_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now().Add(s.timeout))
	}
	s.begun = true
	if _, err := s.ResponseWriter.Write(b); err != nil {
		s.gone()
	}
	return len(b), nil
}

// FlushError does the same. http.ResponseController calls it after each line.
func (s *sink) FlushError() error {
	if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
		s.gone()
	}
	return nil
}

// noteStreamError takes down the error that ends a stream.
func noteStreamError(ctx context.Context, err error) *status.Status {
	st := status.Convert(err) // what the gateway refuses does not become a stream
	if s, ok := ctx.Value(sinkKey{}).(*sink); ok {
		s.failed = st
	}
	return st
}
