package admin

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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

	for contentType, want := range map[string]bool{"application/json": true, streamType: false} {
		deadline := &deadlineOf{ResponseWriter: httptest.NewRecorder()}
		w := &responseWriter{ResponseWriter: deadline, timeout: time.Minute}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(nil) // never fails
		if deadline.set != want {
			t.Errorf("%s: deadline set: %v", contentType, deadline.set)
		}
	}
}

// deadlineOf records whether a deadline was set.
type deadlineOf struct {
	http.ResponseWriter
	set bool
}

func (d *deadlineOf) SetWriteDeadline(time.Time) error {
	d.set = true
	return nil
}
