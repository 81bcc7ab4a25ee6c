package admin_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
)

// A value that the rules refuse has the status 422 and the faults, unless the request skips validation.
func TestValidationOverHTTP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte("checks: [{schema: {properties: {percent: {maximum: 100}}}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, func(c *config.Config) {
		r := config.NewResource("flags")
		r.Codec, r.ValidationFile = "json", path
		c.Resources = append(c.Resources, r)
	})
	const object, bad = "/v1/resources/flags/objects/a", `{"percent": 5000}`
	put := func(query, value string) answer {
		t.Helper()
		return s.do(t, "PUT", object+query, value, "Content-Type", "application/json")
	}
	for name, a := range map[string]answer{
		"put":           put("", bad),
		"validate only": put("?validateOnly=true", bad),
		"transaction":   s.do(t, "POST", "/v1/resources/flags/transactions", `{"operations": [{"put": {"key": "a", "text": "{\"percent\": 5000}"}}]}`),
	} {
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "VALUE_REFUSED") || !strings.Contains(string(a.body), "put.value/percent") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := put("?validateOnly=true", `{"percent": 5}`); a.status != http.StatusOK {
		t.Errorf("valid: %d %s", a.status, a.body)
	}
	if a := s.do(t, "GET", object, ""); a.status != http.StatusNotFound {
		t.Errorf("something was stored: %d %s", a.status, a.body)
	}
	if a := put("?skipValidation=true", bad); a.status != http.StatusOK {
		t.Errorf("skipped: %d %s", a.status, a.body)
	}
	if a := put("?skipValidation=true&validateOnly=true", bad); a.status != http.StatusBadRequest {
		t.Errorf("both: %d %s", a.status, a.body)
	}
}
