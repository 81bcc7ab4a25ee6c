package admin

import (
	"errors"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// eventStreamType is the content type of server-sent events, which the EventSource of browsers
// receives. A message of a watch is an event without a name, whose id is the position of the
// message. The browser resumes at the last id.
const eventStreamType = "text/event-stream"

// events marshals the messages of a stream as server-sent events, and all else as lines does.
type events struct{ *lines }

// StreamContentType implements runtime.StreamContentType.
func (events) StreamContentType(any) string { return eventStreamType }

// ContentType implements runtime.Marshaler.
func (e events) ContentType(v any) string {
	if _, isEnd := v.(map[string]proto.Message); isEnd {
		return eventStreamType
	}
	return e.lines.ContentType(v)
}

// Marshal implements runtime.Marshaler. The gateway passes the messages of streams as maps, and
// ends each event with an empty line. JSON has no line breaks.
func (e events) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case map[string]any:
		message := v["result"].(proto.Message)
		return appendJSON(appendPosition(nil, message), message)
	case map[string]proto.Message:
		return marshalEnd(v["error"].(*spb.Status))
	}
	return e.lines.Marshal(v)
}

// appendPosition appends the id of an event, and the delay before the browser resumes.
func appendPosition(b []byte, message proto.Message) []byte {
	watch, ok := message.(*fanoutv1.WatchResponse)
	if !ok {
		return b
	}
	b = append(b, "id: "...)
	b = append(b, eventID(watch.GetPosition())...)
	b = append(b, '\n')
	if watch.GetResumeAtOnce() {
		b = appendRetry(b, resumeAtOnce)
	}
	return b
}

func appendJSON(b []byte, message proto.Message) ([]byte, error) {
	b, err := protojson.MarshalOptions{}.MarshalAppend(append(b, "data: "...), message)
	return append(b, '\n'), err
}

// marshalEnd marshals the error with which a stream ends.
func marshalEnd(err *spb.Status) ([]byte, error) {
	b := []byte("event: status\n")
	if delay := detail[*errdetails.RetryInfo](status.FromProto(err)).GetRetryDelay().AsDuration(); delay > longestRetry {
		b = appendRetry(b, delay)
	}
	return appendJSON(b, err)
}

// eventID returns the id of an event at a position. A message of a relay may have any epoch.
func eventID(p *fanoutv1.Position) string {
	return url.QueryEscape(p.GetEpoch()) + ":" + strconv.FormatInt(p.GetRevision(), 10)
}

// parseEventID parses the id of an event.
func parseEventID(id string) (*fanoutv1.Position, error) {
	epoch, revision, _ := strings.Cut(id, ":")
	epoch, err := url.QueryUnescape(epoch)
	n, err2 := strconv.ParseInt(revision, 10, 64)
	if err := errors.Join(err, err2); err != nil || n < 0 || epoch == "" {
		return nil, errors.New("not the id of an event of a watch")
	}
	return &fanoutv1.Position{Epoch: epoch, Revision: n}, nil
}

const lastEventHeader = "Last-Event-ID"

// takeLastEvent handles the id of the last event of a watch that is resumed: the header that
// browsers send, or the parameter for clients that cannot set a header. The browser keeps the
// parameter when it resumes, so the header overrides it.
func takeLastEvent(r *http.Request) (field string, err error) {
	field = "lastEventId"
	id, err := takeParameter(r, "lastEventId", "last_event_id")
	if err != nil {
		return field, err
	}
	if header := r.Header.Get(lastEventHeader); header != "" {
		field, id = lastEventHeader, &header
	}
	if id != nil && *id != "" {
		exchangeOf(r.Context()).last, err = parseEventID(*id)
	}
	return field, err
}

// resumeAt makes a watch begin after the last event. The URL is still that of the
// first request.
func resumeAt(watch *fanoutv1.WatchRequest, last *fanoutv1.Position) {
	switch {
	case last == nil:
	case last.GetRevision() == 0: // in the middle of a RESET, which starts over
		watch.Begin = nil
	default:
		watch.Begin, watch.Consistency = &fanoutv1.WatchRequest_After{After: last}, nil
	}
}

// acceptsEvents reports whether the client asks for server-sent events.
func acceptsEvents(h http.Header) bool {
	for _, line := range h.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			mediaType, parameters, err := mime.ParseMediaType(part)
			q, weighted := parameters["q"]
			if err == nil && mediaType == eventStreamType && !(weighted && strings.Trim(q, "0.") == "") {
				return true
			}
		}
	}
	return false
}

// isTemporary reports whether a later try may succeed. A browser tries again only if the response
// is 200 and ends.
func isTemporary(st *status.Status) bool { return detail[*errdetails.RetryInfo](st) != nil }

// Delays after which browsers resume a stream that has ended. They try as often while the server
// is away, so the delay is never short. It is random, because many streams may end together.
const (
	shortestRetry = time.Second
	longestRetry  = 3 * time.Second
	resumeAtOnce  = 250 * time.Millisecond // the server spreads the ends itself
)

// appendRetry appends the delay after which the browser resumes.
func appendRetry(b []byte, delay time.Duration) []byte {
	b = append(b, "retry: "...)
	b = strconv.AppendInt(b, delay.Milliseconds(), 10)
	return append(b, '\n')
}

// heartbeatInterval is the interval of the comments in a stream of events without messages. So it is
// never silent for 20 s, and some proxies close connections that are idle for 30 s.
const heartbeatInterval = 10 * time.Second

// heartbeat sends comments in a stream of events while it has no messages.
type heartbeat struct {
	mu     sync.Mutex  // held while the response is written
	timer  *time.Timer // guarded by mu; nil: not started
	silent bool        // guarded by mu: nothing was written since the timer was set
	ended  bool        // guarded by mu
}

// stop stops the comments. Nothing is written after it has returned.
func (h *heartbeat) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	if h.timer != nil {
		h.timer.Stop()
	}
}

// sendsEvents reports whether the response has events: those of a stream, or one with an error.
func (s *exchange) sendsEvents() bool {
	return s.stream && s.Header().Get("Content-Type") == eventStreamType
}

// writeEvent writes a part of an event.
func (s *exchange) writeEvent(b []byte) (int, error) {
	h := &s.heartbeat
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent = false
	if !s.begun {
		s.begun = true
		s.send(appendRetry(nil, shortestRetry+rand.N(longestRetry-shortestRetry)))
		h.timer = time.AfterFunc(heartbeatInterval, s.beat)
	}
	s.send(b)
	return len(b), nil
}

// beat writes a comment if there was nothing else.
func (s *exchange) beat() {
	h := &s.heartbeat
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	if h.silent {
		s.send([]byte(":\n"))
		s.flush()
	}
	h.silent = true
	h.timer.Reset(heartbeatInterval)
}
