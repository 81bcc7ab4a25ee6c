package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// The id of an event names its position, whatever the epoch is: a relay passes on those of others.
func TestEventIDsNameAnyPosition(t *testing.T) {
	for _, epoch := range []string{"3f-1", "a:b", "a b\n%2F", "ü"} {
		want := &fanoutv1.Position{Epoch: epoch, Revision: 7}
		id := eventID(want)
		got, err := parseEventID(id)
		if err != nil || got.GetEpoch() != epoch || got.GetRevision() != 7 || strings.ContainsAny(id, " \n") {
			t.Errorf("%q: got %v, %v from the id %q", epoch, got, err, id)
		}
	}
}

// A stream of events without messages has comments, until its request ends.
func TestSilentEventsHaveComments(t *testing.T) {
	for contentType, want := range map[string]string{
		eventStreamType: "data: 1\n\n:\n" + "data: 2\n\n:\n",
		streamType:      "data: 1\n\n" + "data: 2\n\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			deadline := &deadlineOf{ResponseWriter: recorder}
			streams(time.Minute, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				exchangeOf(r.Context()).stream = true
				w.Header().Set("Content-Type", contentType)
				time.Sleep(10 * heartbeatInterval) // no response yet, so no comment
				for _, message := range []string{"data: 1\n\n", "data: 2\n\n"} {
					_, _ = w.Write([]byte(message)) // never fails
					time.Sleep(9 * heartbeatInterval / 4)
				}
			})).ServeHTTP(deadline, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
			time.Sleep(10 * heartbeatInterval) // the request has ended
			body := recorder.Body.String()
			retry, rest, _ := strings.Cut(body, "\n")
			if contentType == streamType {
				rest = body
			} else if !strings.HasPrefix(retry, "retry: ") {
				t.Errorf("the stream begins with %q", retry)
			}
			if rest != want {
				t.Errorf("%s: got %q", contentType, rest)
			}
			if len(deadline.sets) > 0 {
				t.Error("the stream has a deadline")
			}
		})
	}
}
