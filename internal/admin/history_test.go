package admin_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The message of a write comes in a header or a parameter, and the history shows it.
func TestHistoryOverHTTP(t *testing.T) {
	s := open(t, nil)
	put := func(query, value string, header ...string) answer {
		t.Helper()
		return s.do(t, "PUT", "/v1/resources/config/objects/a"+query, value, append(header, "Content-Type", "text/plain")...)
	}
	for _, a := range []answer{
		put("", "1", "Fanout-Message", "in a header"), put("?message=in+a+parameter", "2"),
		s.do(t, "DELETE", "/v1/resources/config/objects/a", "", "Fanout-Message", "no more"),
	} {
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	a := s.do(t, "GET", "/v1/resources/config/history?key=a&values=true", "")
	for _, want := range []string{`"KIND_DELETE"`, `"message":"no more"`, `"message":"in a parameter"`, `"message":"in a header"`, `"text":"1"`} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("%d %s, want %s", a.status, a.body, want)
		}
	}
	for name, a := range map[string]answer{
		"two messages":           put("?message=a", "1", "Fanout-Message", "b"),
		"a header of a POST":     s.do(t, "POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "a"}}]}`, "Content-Type", "application/json", "Fanout-Message", "b"),
		"a message that is long": put("", "1", "Fanout-Message", strings.Repeat("m", 1025)),
	} {
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	a = s.do(t, "POST", "/v1/resources/config/history/purge", `{"key": "a"}`, "Content-Type", "application/json")
	if a.status != http.StatusOK || !strings.Contains(string(a.body), `"removed":"2"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// The status page rolls back with a transaction that names the present revision, and reads single entries with their values.
func TestRollbackOverHTTP(t *testing.T) {
	s := open(t, nil)
	transact := func(body string) answer {
		t.Helper()
		return s.do(t, "POST", "/v1/resources/config/transactions", body)
	}
	var revisions [2]string
	for i, value := range []string{"1", "2"} {
		a := transact(`{"operations": [{"put": {"key": "a/b", "text": "` + value + `", "labels": {"env": "prod"}}}], "message": "write ` + value + `"}`)
		m := regexp.MustCompile(`"revision":"(\d+)"`).FindStringSubmatch(string(a.body))
		if a.status != http.StatusOK || m == nil {
			t.Fatalf("%d %s", a.status, a.body)
		}
		revisions[i] = m[1]
	}
	a := s.do(t, "GET", "/v1/resources/config/history?scope.key=a/b&values=true&pageSize=2&revision="+revisions[0], "")
	if !strings.Contains(string(a.body), `"text":"1"`) || strings.Contains(string(a.body), "write 2") || !strings.Contains(string(a.body), `"labels":{"env":"prod"}`) {
		t.Errorf("%d %s, want the first write only", a.status, a.body)
	}
	restore := `{"operations": [{"put": {"key": "a/b", "text": "1", "ifModRevision": "%s"}}], "returnCurrent": true, "message": "rollback to revision ` + revisions[0] + `"}`
	a = transact(fmt.Sprintf(restore, revisions[0]))
	if a.status != http.StatusOK || strings.Contains(string(a.body), `"applied":true`) || !strings.Contains(string(a.body), `"modRevision":"`+revisions[1]+`"`) {
		t.Errorf("after another write: %d %s, want the present object", a.status, a.body)
	}
	if a = transact(fmt.Sprintf(restore, revisions[1])); a.status != http.StatusOK || !strings.Contains(string(a.body), `"applied":true`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = s.do(t, "GET", "/v1/resources/config/history?scope.prefix=a&pageSize=1", "")
	if !strings.Contains(string(a.body), `"message":"rollback to revision `+revisions[0]+`"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
