package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// The server gives up an answer that the client does not read. A watch waits for its reader.
func TestAnswersHaveToBeRead(t *testing.T) {
	ended := make(chan error, 1)
	s := httptest.NewServer(streams(10*time.Millisecond, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write(make([]byte, 1<<20)) // a failure ends the request
		}
		ended <- nil
	})))
	defer s.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-ended

	for _, c := range []struct {
		stream      bool // by its path
		contentType string
		want        bool
	}{
		{false, "application/json", true},
		{false, streamType, true}, // a value
		{false, eventStreamType, true},
		{true, "application/json", true}, // an error
		{true, streamType, false},
		{true, eventStreamType, false},
	} {
		deadline := &deadlineOf{ResponseWriter: httptest.NewRecorder()}
		w := &exchange{ResponseWriter: deadline, timeout: time.Minute, client: t.Context(), stream: c.stream}
		w.Header().Set("Content-Type", c.contentType)
		_, _ = w.Write(nil) // never fails
		w.heartbeat.stop()
		if set := len(deadline.sets) > 0; set != c.want {
			t.Errorf("%s of a stream (%v): deadline set: %v", c.contentType, c.stream, set)
		}
	}
}

// Over HTTP/2, a deadline outlives its request and keeps the memory of the connection.
func TestDeadlinesEndWithTheirRequests(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("{}")) })
	gone, leave := context.WithCancel(t.Context())
	leave()
	for name, test := range map[string]struct {
		ctx  context.Context
		want []bool
	}{
		"the client reads":    {t.Context(), []bool{true, false}},
		"the client has gone": {gone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			deadline := &deadlineOf{ResponseWriter: httptest.NewRecorder()}
			r := httptest.NewRequestWithContext(test.ctx, "GET", "/", nil)
			r.ProtoMajor = 2
			streams(time.Minute, answer).ServeHTTP(deadline, r)
			if !slices.Equal(deadline.sets, test.want) {
				t.Errorf("got deadlines that are set %v, want %v", deadline.sets, test.want)
			}
		})
	}
}

// deadlineOf records for each call whether a deadline was set or cleared.
type deadlineOf struct {
	http.ResponseWriter
	sets []bool
}

func (d *deadlineOf) SetWriteDeadline(at time.Time) error {
	d.sets = append(d.sets, !at.IsZero())
	return nil
}
