package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
)

// lines marshals messages as JSON, each message of a stream as one line. The JSON is that of grpcurl:
// unset fields are left out, and unknown fields are an error.
type lines struct{ runtime.JSONPb }

// Marshal implements runtime.Marshaler. It writes the boolean results of PUT and DELETE requests
// even if they are false.
func (l *lines) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case rawValue:
		return nil, nil
	case *fanoutv1.PutResponse, *fanoutv1.DeleteResponse, *fanoutv1.EndWatcherResponse:
		return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(v.(proto.Message))
	}
	return l.JSONPb.Marshal(v)
}

// NewDecoder implements runtime.Marshaler.
func (l *lines) NewDecoder(r io.Reader) runtime.Decoder {
	next := json.NewDecoder(r)
	return runtime.DecoderFunc(func(v any) error {
		var text json.RawMessage
		err := next.Decode(&text)
		if err == nil {
			err = l.Unmarshal(text, v)
		}
		if err == nil {
			err = preferJSON(v, text)
		}
		if err != nil {
			return explain(v, err)
		}
		return checkNotInPath(v)
	})
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
		ctx = access.OnBehalf(ctx, access.Behalf{Certificate: certificateOf(r), Answered: answered})
		s := &exchange{ResponseWriter: w, timeout: timeout, client: r.Context(), cancel: cancel, unless: r.Header.Get("If-None-Match")}
		next.ServeHTTP(s, r.Clone(context.WithValue(ctx, exchangeKey{}, s))) // a copy that handlers may change
		s.heartbeat.stop()
		if s.begun && r.ProtoMajor == 2 {
			// A deadline that was set when the client had just gone would keep the memory of
			// the connection until then. It cannot be cleared if the connection is closed,
			// and then it does not exist.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		}
	})
}

// exchange is a request on its way through the gateway, as far as the gateway does not know it, and
// writes the response.
type exchange struct {
	http.ResponseWriter
	timeout time.Duration   // for responses that are no stream
	client  context.Context // done when the client has gone
	cancel  func()          // ends the request

	head   bool               // the request is HEAD
	unless string             // the header If-None-Match
	raw    bool               // the response is the value alone
	write  *write             // nil: the request only reads
	last   *fanoutv1.Position // of the last event that the client has received; nil: the watch is not resumed
	stream bool               // the path is one of a stream

	begun     bool           // part of the body was written
	failed    *status.Status // the error that ends a stream, once known
	heartbeat heartbeat      // of server-sent events
}

type exchangeKey struct{}

// exchangeOf returns the exchange of a request.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

// sendsStream reports whether the response lasts until its client leaves. A value may have the
// same content types.
func (s *exchange) sendsStream() bool {
	contentType := s.Header().Get("Content-Type")
	return s.stream && s.failed == nil && (contentType == streamType || contentType == eventStreamType)
}

// Unwrap is called by http.ResponseController.
func (s *exchange) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader implements http.ResponseWriter. A stream that fails before it begins gets
// the status of its error.
func (s *exchange) WriteHeader(httpCode int) {
	if s.failed != nil {
		setRetryAfter(s.Header(), s.failed)
		httpCode = httpStatus(s.failed)
		if s.sendsEvents() && isTemporary(s.failed) {
			httpCode = http.StatusOK
		}
	}
	if httpCode == http.StatusUnauthorized {
		s.Header().Set("WWW-Authenticate", "Bearer") // the gateway puts the message there
	}
	s.ResponseWriter.WriteHeader(httpCode)
}

// Write implements http.ResponseWriter. It ends the request when its client has gone, and
// returns no error, which the gateway would log.
func (s *exchange) Write(b []byte) (int, error) {
	if s.client.Err() != nil {
		return len(b), nil
	}
	if !s.begun && !s.sendsStream() {
		// Setting a deadline fails only without a network.
		_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now().Add(s.timeout))
	}
	if s.sendsEvents() {
		return s.writeEvent(b)
	}
	s.begun = true
	s.send(b)
	return len(b), nil
}

func (s *exchange) send(b []byte) {
	if _, err := s.ResponseWriter.Write(b); err != nil {
		s.cancel()
	}
}

// FlushError flushes in the same way. http.ResponseController calls it after each line.
func (s *exchange) FlushError() error {
	s.heartbeat.mu.Lock()
	defer s.heartbeat.mu.Unlock()
	s.flush()
	return nil
}

func (s *exchange) flush() {
	if err := http.NewResponseController(s.ResponseWriter).Flush(); err != nil {
		s.cancel()
	}
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
	exchangeOf(ctx).failed = st
	return st
}
