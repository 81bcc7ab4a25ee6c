package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A client over HTTP names itself, reports what it has applied, and sees how many watches have
// applied a revision.
func TestReportsOverHTTP(t *testing.T) {
	s := open(t, nil)
	at := s.put(t, "shop/a", "1")
	w := s.watch(t, "prefix=shop&instance=cart-7&labels[app.kubernetes.io/name]=cart&subscriber.labels[tier]=&reports=true")
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART)
	position := w.next(fanoutv1.WatchResponse_KIND_SYNCED).GetPosition()
	got := s.watchers(t)[0].GetSubscriber()
	if got.GetInstance() != "cart-7" || len(got.GetLabels()) != 2 || got.GetLabels()["app.kubernetes.io/name"] != "cart" {
		t.Errorf("got subscriber %v", got)
	}
	token := w.header.Get("Fanout-Watch")
	if token == "" {
		t.Fatal("the response does not name the watch")
	}

	// The first answer may be one that an earlier request of the same question got a moment ago.
	awaitApplied := func(more string, want func(*fanoutv1.WatchAppliedResponse) bool) {
		t.Helper()
		resp := s.send(t, poll.Context(t), "GET", fmt.Sprintf("/v1/resources/config/applied?prefix=shop&revision=%d%s", at, more), "")
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "application/x-ndjson" {
			t.Fatalf("got %d, %s", resp.StatusCode, got)
		}
		lines, m := json.NewDecoder(resp.Body), &fanoutv1.WatchAppliedResponse{}
		for ok := false; !ok; ok = want(m) {
			var l line
			if err := lines.Decode(&l); err != nil {
				t.Fatalf("%q: %v after %v", more, err, m)
			}
			if err := protojson.Unmarshal(l.Result, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitApplied("", func(m *fanoutv1.WatchAppliedResponse) bool { // before the report
		return m.GetWatches() == 1 && m.GetApplied() == 0 && len(m.GetPending()) == 1
	})
	body := fmt.Sprintf(`{"watch": %q, "applied": {"epoch": %q, "revision": "%d"}}`, token, position.GetEpoch(), position.GetRevision())
	call[fanoutv1.ReportResponse](t, s, "POST", "/v1/reports", body)
	awaitApplied("", func(m *fanoutv1.WatchAppliedResponse) bool {
		return m.GetWatches() == 1 && m.GetApplied() == 1 && len(m.GetPending()) == 0
	})
	s.watch(t, "prefix=shop").next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	for more, want := range map[string][3]int64{ // watches, applied, not reporting
		"":                 {1, 1, 1},
		"&requireAll=true": {2, 1, 0},
		"&instance=cart-7": {1, 1, 0},
		"&instance=cart-8": {0, 0, 0},
		"&subscriberSelector=" + url.QueryEscape("app.kubernetes.io/name=cart,tier"): {1, 1, 0},
		"&subscriberSelector=app": {0, 0, 0},
	} {
		awaitApplied(more, func(m *fanoutv1.WatchAppliedResponse) bool {
			return [3]int64{m.GetWatches(), m.GetApplied(), m.GetNotReporting()} == want
		})
	}
	body = fmt.Sprintf(`{"watch": %q, "error": {"code": 3, "message": "x"}, "failedKeys": ["shop/a"]}`, token)
	call[fanoutv1.ReportResponse](t, s, "POST", "/v1/reports", body)
	if got := s.watchers(t)[0].GetFailedKeys(); len(got) != 1 || got[0] != "shop/a" {
		t.Errorf("got failed keys %q", got)
	}

	for path, want := range map[string]string{
		"watch?labels=x":                "unknown parameter",
		"watch?instance[a]=x":           "unknown parameter",
		"watch?labels[a]=x&labels[a]=y": "twice",
		"watch?labels[%ff]=x":           "UTF-8",
	} {
		if a := s.do(t, "GET", "/v1/resources/config/"+path, ""); a.status != http.StatusBadRequest {
			t.Errorf("%s: got %d, %s, want an error about %s", path, a.status, a.body, want)
		}
	}
	if a := s.do(t, "HEAD", "/v1/resources/config/applied?revision=1", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: got %d", a.status)
	}
	if a := s.do(t, "POST", "/v1/reports", `{"watch": "x"}`); a.status != http.StatusNotFound || a.reason(t) != "WATCH_NOT_FOUND" {
		t.Errorf("an unknown watch: got %d, %s", a.status, a.body)
	}
}
