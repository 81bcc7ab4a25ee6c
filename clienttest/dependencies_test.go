package clienttest_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A unit test that imports this package links the server, but neither etcd nor what the
// server has for operators.
func TestAUnitTestDoesNotLinkEtcd(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		for _, heavy := range []string{"go.etcd.io/", "github.com/prometheus/", "go.opentelemetry.io/", "github.com/grpc-ecosystem/grpc-gateway/"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("the package depends on %s", path)
			}
		}
	}
}
