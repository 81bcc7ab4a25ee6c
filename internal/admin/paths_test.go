package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

func TestObjectsOverHTTP(t *testing.T) {
	s := open(t, nil)
	// Keys as written in the path, and as stored.
	for path, key := range map[string]string{
		"plain": "plain", "team/a/limits": "team/a/limits", "team%2Fb": "team/b", "a%20b/%C3%A4": "a b/ä",
		"verb:get": "verb:get", "a+b": "a+b", "100%25": "100%", "watch": "watch", "%2561": "%61",
	} {
		written := s.put(t, path, key)
		got := call[fanoutv1.GetResponse](t, s, "GET", "/v1/resources/config/objects/"+path, "")
		if o := got.GetObject(); o.GetKey() != key || o.GetText() != key || o.GetModRevision() != written {
			t.Errorf("%s: got %v", path, got)
		}
	}
	created := s.do(t, "PUT", "/v1/resources/config/objects/full?labels[env]=prod&if_mod_revision=0&ttl=100s", "\x00\x01", "Content-Type", "application/x")
	put := parse[fanoutv1.PutResponse](t, created.body)
	got := call[fanoutv1.GetResponse](t, s, "GET", "/v1/resources/config/objects/full", "").GetObject()
	if string(got.GetData()) != "\x00\x01" || got.GetContentType() != "application/x" || got.GetLabels()["env"] != "prod" {
		t.Errorf("got %v", got)
	}

	// A failed condition keeps the object, however the condition is written.
	for _, condition := range []string{"if_mod_revision", "ifModRevision", "delete.if_mod_revision", "delete.ifModRevision"} {
		if a := s.do(t, "DELETE", "/v1/resources/config/objects/full?"+condition+"=1", ""); a.status != http.StatusPreconditionFailed {
			t.Errorf("%s: %d %s", condition, a.status, a.body)
		}
	}
	const full = "/v1/resources/config/objects/full"
	if p := call[fanoutv1.PutResponse](t, s, "PUT", full+"?return_current=true&if_mod_revision=1", `2`); p.GetApplied() || p.GetObject().GetKey() != "full" {
		t.Errorf("a put that is not applied: got %v", p)
	}
	right := fmt.Sprintf("%s?if_mod_revision=%d&return_deleted=true", full, put.GetRevision())
	if d := call[fanoutv1.DeleteResponse](t, s, "DELETE", right, ""); !d.GetDeleted() || string(d.GetObject().GetData()) != "\x00\x01" {
		t.Errorf("delete: got %v", d)
	}
	if d := call[fanoutv1.DeleteResponse](t, s, "DELETE", "/v1/resources/config/objects/full", ""); d.GetDeleted() {
		t.Error("the object was deleted twice")
	}
}

func TestListsOverHTTP(t *testing.T) {
	s := open(t, nil)
	var before int64
	for i := range 5 {
		before = s.put(t, fmt.Sprint("team/", i), fmt.Sprint(i))
	}
	call[fanoutv1.PutResponse](t, s, "PUT", "/v1/resources/config/objects/team/0?labels[env]=prod", `"new"`)
	s.put(t, "other", "x")
	list := func(parameters string) (keys []string, last *fanoutv1.ListResponse) {
		last = call[fanoutv1.ListResponse](t, s, "GET", "/v1/resources/config/objects?"+parameters, "")
		for _, o := range last.GetObjects() {
			keys = append(keys, o.GetKey())
		}
		return keys, last
	}
	for parameters, want := range map[string]string{
		"":                             "other team/0 team/1 team/2 team/3 team/4",
		"prefix=team":                  "team/0 team/1 team/2 team/3 team/4",
		"scope.prefix=team&pageSize=2": "team/0 team/1",
		"key=team/3":                   "team/3",
		"label_selector=env":           "team/0",
		"fieldSelector=name%3D2":       "team/2",
		"start_key=team/3&any=true":    "team/3 team/4",
		fmt.Sprint("label_selector=env&exact_revision=", before): "",
	} {
		if got, _ := list(parameters); strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %s", parameters, got, want)
		}
	}
	var all []string
	for token := ""; ; {
		keys, page := list("prefix=team&page_size=2&page_token=" + url.QueryEscape(token))
		all = append(all, keys...)
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(all) != 5 || !slices.IsSorted(all) {
		t.Errorf("in pages: %q", all)
	}
}

func TestTransactionsOverHTTP(t *testing.T) {
	s := open(t, nil)
	at := s.put(t, "a", "1")
	done := call[fanoutv1.TransactResponse](t, s, "POST", "/v1/resources/config/transactions", fmt.Sprintf(
		`{"operations": [{"check": {"key": "a", "mod_revision": %d}}, {"put": {"key": "b/c", "text": "2"}}, {"delete": {"key": "d"}}]}`, at))
	if len(done.GetResults()) != 3 || s.get(t, "b/c") != "2" {
		t.Errorf("got %v", done)
	}
	a := s.do(t, "POST", "/v1/resources/config/transactions", `{"operations": [{"check": {"key": "a", "mod_revision": 1}}]}`)
	if a.status != http.StatusPreconditionFailed || a.reason(t) != "PRECONDITION_FAILED" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestResourcesAndWatchersOverHTTP(t *testing.T) {
	s := open(t, nil)
	got := call[fanoutv1.ListResourcesResponse](t, s, "GET", "/v1/resources?measure_lag=true", "")
	if len(got.GetResources()) != 1 || got.GetResources()[0].GetName() != "config" || got.GetResources()[0].LagRevisions == nil {
		t.Errorf("got %v", got)
	}
	w := s.watch(t, "from_now=true", "User-Agent", "browser/1", "X-Forwarded-For", "10.9.8.7", "Grpc-Metadata-X", "y")
	at := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()
	all := s.watchers(t)
	if len(all) != 1 || all[0].GetPeer() != "127.0.0.1" || all[0].GetUserAgent() != "browser/1" {
		t.Fatalf("the watchers are %v", all)
	}
	ended := call[fanoutv1.EndWatcherResponse](t, s, "DELETE", "/v1/watchers/"+all[0].GetId(), "")
	last := w.next(fanoutv1.WatchResponse_KIND_DRAINING)
	if diff := cmp.Diff(at.String(), last.GetPosition().String()); !ended.GetEnded() || diff != "" {
		t.Errorf("ended: %v, -position +last:\n%s", ended, diff)
	}
	if reason := w.end(); reason != "DRAINING" {
		t.Errorf("the watch ended with %s", reason)
	}
}

func TestErrorsOverHTTP(t *testing.T) {
	s := open(t, func(c *config.Config) { c.MaxValueSize = 1000 })
	s.put(t, "a", "1")
	const objects = "/v1/resources/config/objects"
	for _, c := range []struct {
		method, path, body string
		status             int
		reason             string
	}{
		{"GET", objects + "/nothing", "", 404, "KEY_NOT_FOUND"},
		{"GET", "/v1/resources/x/objects/a", "", 404, "UNKNOWN_RESOURCE"},
		{"GET", objects + "/", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "/a?min_revision=1000000", "", 400, "REVISION_IN_FUTURE"},
		{"GET", objects + "/a?min_revision=x", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "/a?key=b", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "/a?resource=b", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?prefx=a", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?scope=a", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?scope.prefix.x=a", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?prefix=a&prefix=b", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?prefix=a&scope.prefix=b", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?prefix=a&key=b", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?page_size=-1", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?page_token=rubbish", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?prefix=%zz", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?%ff=1", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "?prefix=%ff", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "/%ff", "", 400, "INVALID_REQUEST"},
		{"DELETE", "/v1/watchers/%ff", "", 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?%ff=1", `{"text": "1"}`, 400, "INVALID_REQUEST"},
		{"GET", objects, `{"prefix": "a"}`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?if_mod_revision=1", `1`, 412, "PRECONDITION_FAILED"},
		{"PUT", objects + "/b?if_mod_rev=1", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?put=1", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?put.key=c", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?text=1", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?put.data=1", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?ttl=1", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?ttl=1s&keep_ttl=true", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?labels[env]=a%20b", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b?labels=a", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b", "", 400, "INVALID_REQUEST"},
		{"PUT", objects + "/b", strings.Repeat("x", 1001), 413, "BODY_TOO_LARGE"},
		{"PUT", objects + "/b//c", `1`, 400, "INVALID_REQUEST"},
		{"PUT", objects, `{"text": "1"}`, 405, "METHOD_NOT_ALLOWED"},
		{"POST", objects + "/b", `{"text": "1"}`, 405, "METHOD_NOT_ALLOWED"},
		{"PATCH", objects + "/b", ``, 405, "METHOD_NOT_ALLOWED"},
		{"DELETE", objects + "/a?if_mod_rev=1", "", 400, "INVALID_REQUEST"},
		{"DELETE", objects + "/a?delete=1", "", 400, "INVALID_REQUEST"},
		{"DELETE", objects + "/a", `{"if_mod_revision": 1}`, 400, "INVALID_REQUEST"},
		{"GET", objects + "/a?raw=yes", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "/a?raw&raw", "", 400, "INVALID_REQUEST"},
		{"GET", objects + "/nothing?raw", "", 404, "KEY_NOT_FOUND"},
		{"GET", objects + "?raw", "", 400, "INVALID_REQUEST"},
		{"DELETE", objects + "/a?raw", "", 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", `{}`, 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", "\xff", 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "b"}}]`, 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "b"}}]}{}`, 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "b"}}]}}`, 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "b", "txt": "1"}}]}`, 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", " \n", 400, "INVALID_REQUEST"},
		{"POST", "/v1/resources/config/transactions", `{"resource": "x", "operations": [{"put": {"key": "b"}}]}`, 400, "INVALID_REQUEST"},
		{"GET", "/v1/watchers?page_size=-1", "", 400, "INVALID_REQUEST"},
		{"GET", "/v1/watchers/x", "", 405, "METHOD_NOT_ALLOWED"},
		{"GET", "/v2/resources", "", 404, "UNKNOWN_PATH"},
		{"POST", "/", `{}`, 405, "METHOD_NOT_ALLOWED"},
		{"DELETE", "/openapi.json", ``, 405, "METHOD_NOT_ALLOWED"},
	} {
		a := s.do(t, c.method, c.path, c.body)
		if c.reason == "INVALID_REQUEST" && len(a.violations(t)) == 0 {
			t.Errorf("%s %s %.40s: the error does not name the invalid field: %s", c.method, c.path, c.body, a.body)
		}
		if a.status != c.status || a.reason(t) != c.reason || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.40s: want %d %s, got %d %s", c.method, c.path, c.body, c.status, c.reason, a.status, a.body)
		}
	}
	// None of these requests had an effect.
	if keys := call[fanoutv1.ListResponse](t, s, "GET", objects, "").GetObjects(); len(keys) != 1 {
		t.Errorf("the objects are %v", keys)
	}
	// A watch that cannot begin has the status of its error.
	for path, want := range map[string]int{
		"/v1/resources/x/watch":                                       404,
		"/v1/resources/config/watch?epoch=x":                          200, // another epoch leads to a RESET
		"/v1/resources/config/watch?epoch=x&revision=1&every_event=1": 410,
		"/v1/resources/config/watch?from_now=true&time_limit=soon":    400,
		"/v1/resources/config/watch?bookmark_interval=1ms":            400,
	} {
		resp := s.send(t, t.Context(), "GET", path, "")
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// An error names the invalid field, even if the request never reaches the gRPC server.
func TestInvalidFieldsAreNamedOverHTTP(t *testing.T) {
	s := open(t, nil)
	const objects = "/v1/resources/config/objects"
	for _, c := range []struct{ method, path, body, field string }{
		{"GET", objects + "?page_size=-1", "", "page_size"},
		{"GET", objects + "?page_size=many", "", "page_size"},
		{"GET", objects + "?prefx=a", "", "prefx"},
		{"GET", objects + "?prefix=a&prefix=b", "", "prefix"},
		{"GET", objects + "/a?key=b", "", "key"},
		{"GET", objects, `{"prefix": "a"}`, "body"},
		{"PUT", objects + "/a?if_mod_rev=1", `1`, "if_mod_rev"},
		{"PUT", objects + "/a?content_type=x", `1`, "content_type"},
		{"PUT", objects + "/a?put.ifModRevision=-1", `1`, "put.if_mod_revision"},
		{"PUT", objects + "/a", "", "body"},
		{"POST", "/v1/resources/config/transactions", `{"txt": "1"}`, "body"},
	} {
		a := s.do(t, c.method, c.path, c.body)
		if found := a.violations(t); len(found) != 1 || found[0] != c.field {
			t.Errorf("%s %s %s: want %s, got %q of %s", c.method, c.path, c.body, c.field, found, a.body)
		}
	}
}

// The answer to a DELETE of a missing object says that nothing was deleted.
func TestDeleteOfAMissingObjectSaysSo(t *testing.T) {
	s := open(t, nil)
	for path, want := range map[string]string{
		"/v1/watchers/nobody":                 `"ended":false`,
		"/v1/resources/config/objects/nobody": `"deleted":false`,
	} {
		a := s.do(t, "DELETE", path, "")
		if a.status != http.StatusOK || !strings.Contains(strings.ReplaceAll(string(a.body), " ", ""), want) {
			t.Errorf("%s: got %d %s", path, a.status, a.body)
		}
	}
}

func TestWritesCanBeOff(t *testing.T) {
	s := open(t, func(c *config.Config) { c.Writes = false })
	if a := s.do(t, "PUT", "/v1/resources/config/objects/a", `{"text": "1"}`); a.status != http.StatusNotImplemented || a.reason(t) != "NOT_SERVED" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.do(t, "GET", "/v1/rights?resource=config", ""); strings.TrimSpace(string(a.body)) != `{"rights":["get","list","watch","admin","history"]}` {
		t.Errorf("rights: got %s", a.body)
	}
}

func TestIndex(t *testing.T) {
	s := open(t, nil)
	index := string(s.do(t, "GET", "/", "").body)
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(s.do(t, "GET", "/openapi.json", "").body, &document); err != nil {
		t.Fatal(err)
	}
	// The index has the same paths, with parameters in capitals.
	listed := map[string]bool{}
	for l := range strings.Lines(index) {
		words := strings.Fields(l)
		if len(words) > 2 && strings.HasPrefix(words[1], "/v1") {
			path, _, _ := strings.Cut(words[1], "?")
			listed[words[0]+" "+path] = true
		}
	}
	for path, methods := range document.Paths {
		path = strings.NewReplacer("{resource}", "RESOURCE", "{key}", "KEY", "{id}", "ID").Replace(path)
		for method := range methods {
			name := strings.ToUpper(method) + " " + path
			if !listed[name] {
				t.Errorf("the index lacks %s", name)
			}
			delete(listed, name)
		}
	}
	for name := range listed {
		t.Errorf("the index has the unknown path %s", name)
	}
}
