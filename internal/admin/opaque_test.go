package admin_test

import (
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// A write replaces a value of another program only if the request says so.
func TestOpaqueValuesOverHTTP(t *testing.T) {
	etcd := loopback.FreeAddress(t)
	prefix := ""
	s := open(t, func(c *config.Config) {
		c.EmbeddedEtcdListen, prefix = etcd, c.Resources[0].Prefix
	})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const foreign = `{"rps": 100}`
	const path = "/v1/resources/config/objects/a"
	write := func(parameter string) answer {
		return s.do(t, "PUT", path+parameter, `{"rps": 200}`, "Content-Type", "application/json")
	}
	transact := func(field string) answer {
		return s.do(t, "POST", "/v1/resources/config/transactions", `{"operations": [{"put": {"key": "a", "text": "x"`+field+`}}]}`)
	}
	for _, c := range []struct{ refused, allowed func() answer }{
		{func() answer { return write("") }, func() answer { return write("?overwriteOpaque=true") }},
		{func() answer { return write("?put.overwrite_opaque=false") }, func() answer { return write("?put.overwrite_opaque=true") }},
		{func() answer { return transact("") }, func() answer { return transact(`, "overwriteOpaque": true`) }},
	} {
		if _, err := client.Put(t.Context(), prefix+"a", foreign); err != nil {
			t.Fatal(err)
		}
		if a := c.refused(); a.status != http.StatusConflict || a.reason(t) != "OPAQUE_VALUE" || !strings.Contains(string(a.body), "overwrite_opaque") {
			t.Errorf("got %d %s", a.status, a.body)
		}
		if got, err := client.Get(t.Context(), prefix+"a"); err != nil || string(got.Kvs[0].Value) != foreign {
			t.Errorf("got %v, %v, want the value of the other program", got, err)
		}
		if a := c.allowed(); a.status != http.StatusOK {
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
}
