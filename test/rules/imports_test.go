package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/fanoutd/fanoutd/"
	root   = "../.."
)

// pkg is a package as the go command describes it.
type pkg struct {
	ImportPath   string
	Name         string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

// packages returns all packages of the module, and of the modules below test/.
func packages(t *testing.T) []pkg {
	t.Helper()
	all, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var listed = sync.OnceValues(func() ([]pkg, error) {
	modules, err := filepath.Glob(filepath.Join(root, "test", "*", "go.mod"))
	if err != nil {
		return nil, err
	}
	var all []pkg
	for _, mod := range append(modules, filepath.Join(root, "go.mod")) {
		cmd := exec.Command("go", "list", "-json=ImportPath,Name,Dir,Imports,TestImports,XTestImports,Deps,GoFiles,TestGoFiles,XTestGoFiles", "./...")
		cmd.Dir = filepath.Dir(mod)
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list the packages of %s: %w", mod, err)
		}
		for list := json.NewDecoder(bytes.NewReader(out)); ; {
			var p pkg
			if err := list.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
			all = append(all, p)
		}
	}
	return all, nil
})

func in(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
}

// TestImportsGoOneWay checks the imports within this module. The table lists what each
// package of the product may import. Tests may import anything.
func TestImportsGoOneWay(t *testing.T) {
	allowed := map[string][]string{
		"internal/object":                   {},
		"internal/access":                   {"internal/access", "internal/object", "internal/reload", "internal/yamlfile"},
		"internal/certificate":              {"internal/reload"},
		"internal/cluster/certs":            {"client/localfile"},
		"internal/cluster/manage":           {},
		"internal/audit":                    {},
		"internal/reload":                   {},
		"internal/crypt":                    {"internal/object"},
		"internal/version":                  {},
		"internal/man":                      {},
		"internal/yamlfile":                 {},
		"internal/validation":               {"internal/object", "internal/reload", "internal/yamlfile"},
		"internal/systemd":                  {},
		"internal/backoff":                  {},
		"internal/lag":                      {},
		"internal/collector":                {},
		"internal/cluster":                  {},
		"internal/cacher":                   {"internal/backoff", "internal/object", "internal/work"},
		"internal/work":                     {},
		"internal/dispatch/parts":           {"internal/cacher", "internal/object"},
		"internal/dispatch/feed":            {"internal/cacher", "internal/dispatch/parts", "internal/object", "internal/selector", "internal/work"},
		"internal/dispatch/catchup":         {"internal/cacher", "internal/dispatch/feed", "internal/dispatch/parts", "internal/object"},
		"internal/dispatch":                 {"internal/dispatch/catchup", "internal/dispatch/feed", "internal/object", "internal/sendqueue", "internal/work"},
		"internal/sendqueue":                {},
		"internal/selector":                 {"internal/object"},
		"internal/wire":                     {"internal/object", "gen"},
		"internal/history":                  {"internal/object", "gen"},
		"internal/store":                    {"internal/backoff", "internal/cluster/manage", "internal/history", "internal/object", "internal/store"},
		"internal/store/embedded":           {"internal/cluster/certs", "internal/cluster/manage", "internal/object", "internal/store/embedded/directory", "internal/store/embedded/disk", "internal/store/embedded/process", "internal/store/etcdlog", "internal/store/leader", "internal/version"},
		"internal/store/embedded/directory": {},
		"internal/store/embedded/disk":      {},
		"internal/store/embedded/process":   {"internal/store/embedded/directory", "internal/store/embedded/disk"},
		"internal/store/embedded/recovery":  {"internal/object", "internal/store/embedded", "internal/store/etcdlog"},
		"internal/store/epochs":             {"internal/object"},
		"internal/store/etcdlog":            {},
		"internal/store/failover":           {"internal/backoff"},
		"internal/store/leader":             {"internal/backoff"},
		"internal/admin":                    {"internal/access", "gen"},
		"internal/metrics":                  {"internal/audit", "internal/cluster/manage", "internal/object", "internal/server", "internal/version"},
		"internal/tracing":                  {"internal/dispatch", "internal/object", "internal/server", "internal/version"},
		"internal/config":                   {"internal/history", "internal/object", "internal/yamlfile"},
		"internal/app":                      {"internal"},
		"internal/direct":                   {"internal/backoff", "internal/cacher", "internal/dispatch", "internal/object"},
		"client":                            {"client/localfile", "gen"},
		"client/localfile":                  {},
		"clienttest":                        {"client", "internal/testserver"}, // for the tests of users
		"internal/testserver":               {"internal/cacher", "internal/dispatch", "internal/object", "internal/server", "internal/wire"},
		"cmd/fanoutd":                       {"client/localfile", "internal/access", "internal/app", "internal/cluster/certs", "internal/collector", "internal/config", "internal/crypt", "internal/man", "internal/version", "internal/yamlfile"},
		"internal/ctl":                      {"client", "internal/backoff", "internal/ctl", "internal/lag", "internal/yamlfile", "gen"},
		"cmd/fanouttest":                    {"internal/man", "internal/testserver", "internal/version"},
		"cmd/fanoutctl":                     {"client", "internal/ctl", "internal/man", "internal/object", "internal/selector", "internal/version", "internal/yamlfile"},
		"conformance":                       {"conformance", "gen"},
		"conformance/goclient":              {"client", "conformance/script", "conformance/testclient", "gen"},
		"examples":                          {"client"},
		"gen":                               {"gen"},
		"test":                              {"internal", "gen", "test"},
		"test/behaviour":                    {"client", "test/behaviour"}, // the program of the Go client
		"test/check":                        {"internal/object", "internal/selector"},
		"test/check/recorded":               {"internal/object", "gen", "test/check"},
		"test/cachertest":                   {"internal/object"},
	}
	maps.Copy(allowed, serverImports)
	for _, p := range packages(t) {
		folder := p.ImportPath
		for allowed[folder] == nil && strings.Contains(folder, "/") {
			folder = folder[:strings.LastIndex(folder, "/")]
		}
		permitted, ok := allowed[folder]
		if !ok {
			t.Errorf("%s is not in the table of this test", p.ImportPath)
		}
		for _, path := range p.Imports {
			if ours, ok := strings.CutPrefix(path, module); ok && !in(ours, permitted...) {
				t.Errorf("%s must not import %s", p.ImportPath, ours)
			}
		}
	}
}

// TestLibrariesHaveOneOwner checks that some libraries are used by one package only.
func TestLibrariesHaveOneOwner(t *testing.T) {
	owners := map[string][]string{
		"go.etcd.io/etcd":                    {"internal/store", "test"},
		"google.golang.org/grpc":             {"client", "clienttest", "conformance", "internal/server", "internal/testserver", "internal/store", "gen", "test", "internal/admin", "internal/metrics", "internal/tracing", "internal/ctl/admin"},
		"google.golang.org/protobuf":         {"client", "conformance", "internal/history", "internal/object", "internal/store", "internal/server", "internal/wire", "gen", "test", "internal/admin"},
		"go.etcd.io/etcd/server":             {"internal/store/embedded", "test"},
		"go.etcd.io/bbolt":                   {"internal/store/embedded", "internal/ctl/cluster", "test"},
		"go.etcd.io/raft":                    {"internal/store/embedded"},
		"github.com/spf13":                   {"cmd", "internal/man", "test"},
		"github.com/tidwall/btree":           {"internal/cacher", "internal/server/registry", "client", "clienttest"},
		"github.com/tidwall/gjson":           {"internal/object"},
		"k8s.io/apimachinery":                {"internal/object", "internal/selector"},
		"k8s.io/client-go":                   {"internal/ctl/output"},
		"google.golang.org/genproto":         {"client", "conformance", "gen", "internal/server", "internal/store/leader", "internal/testserver", "test", "internal/admin"},
		"github.com/grpc-ecosystem":          {"internal/server", "internal/admin", "gen/http"},
		"github.com/gofrs/flock":             {"internal/store/embedded", "cmd/fanoutd"},
		"go.uber.org/zap":                    {"internal/store/embedded", "internal/store/etcdlog", "test"},
		"github.com/prometheus":              {"internal/metrics", "test"},
		"go.opentelemetry.io":                {"internal/tracing", "test"},
		"go.yaml.in/yaml/v4":                 {"internal/yamlfile", "internal/access/policy", "internal/ctl/document", "internal/validation"},
		"cel.dev/cel-go":                     {"internal/validation"},
		"github.com/santhosh-tekuri":         {"internal/validation"},
		"github.com/gdamore/tcell":           {"internal/ctl/top"},
		"github.com/charmbracelet/x/ansi":    {"cmd/fanoutctl", "internal/ctl/output", "internal/ctl/shell", "internal/ctl/top"},
		"github.com/schollz/progressbar":     {"cmd/fanoutctl"},
		"google.golang.org/grpc/reflection":  {"internal/server", "internal/admin"},
		"github.com/natefinch/atomic":        {"client/localfile"},
		"github.com/tink-crypto/tink-go":     {"internal/crypt"},
		"github.com/coreos/go-systemd":       {"internal/systemd", "test"},
		"github.com/coreos/go-oidc":          {"internal/access/jwt"},
		"github.com/go-jose":                 {"internal/access/jwt", "test"},
		"net/http":                           {"internal/admin", "internal/access/jwt", "internal/cluster", "internal/metrics", "internal/app", "gen/http", "test"},
		"gopkg.in/natefinch/lumberjack.v2":   {"internal/audit"},
		"github.com/hashicorp/golang-lru/v2": {"internal/server"},
		"golang.org/x/time":                  {"internal/server", "internal/cacher", "internal/direct"},
	}
	for _, p := range packages(t) {
		for _, path := range p.Imports {
			for library, owner := range owners {
				if in(path, library) && !in(p.ImportPath, owner...) {
					t.Errorf("%s must not import %s", p.ImportPath, path)
				}
			}
		}
	}
}

// TestTheCoreDependsOnNoTransport checks that the cacher and the dispatcher do not depend on
// gRPC or etcd, directly or indirectly.
func TestTheCoreDependsOnNoTransport(t *testing.T) {
	for _, p := range packages(t) {
		if !in(p.ImportPath, "internal/object", "internal/cacher", "internal/dispatch", "internal/direct") {
			continue
		}
		for _, path := range p.Deps {
			if in(path, "google.golang.org/grpc", "go.etcd.io/etcd", "net/http", "github.com/prometheus", "go.opentelemetry.io", module+"gen") {
				t.Errorf("%s depends on %s", p.ImportPath, path)
			}
		}
	}
}

// TestGeneratedCodeIsLight checks that clients of the protocol do not link the HTTP gateway.
func TestGeneratedCodeIsLight(t *testing.T) {
	for _, p := range packages(t) {
		if !in(p.ImportPath, "gen/fanout") {
			continue
		}
		for _, path := range p.Deps {
			if in(path, "github.com/grpc-ecosystem") {
				t.Errorf("%s depends on %s", p.ImportPath, path)
			}
		}
	}
}

// TestOneFileChoosesTheStore checks that the rest of the server knows a store only by the interfaces
// that it declares. The commands in restore.go are about one kind of store, and need no server.
func TestOneFileChoosesTheStore(t *testing.T) {
	for f := range files(t) {
		if f.test || in(f.pkg.ImportPath, "internal/store", "test") || strings.HasSuffix(f.name, "internal/app/store.go") ||
			strings.HasSuffix(f.name, "internal/app/restore.go") {
			continue
		}
		for _, i := range f.syntax.Imports {
			if in(strings.Trim(i.Path.Value, `"`), module+"internal/store") {
				t.Errorf("%s imports %s", f.name, i.Path.Value)
			}
		}
	}
}

// TestOnlyTheCommandReadsTheEnvironment checks that only commands read flags and the
// environment.
func TestOnlyTheCommandReadsTheEnvironment(t *testing.T) {
	for f := range files(t) {
		if f.test || in(f.pkg.ImportPath, "cmd", "conformance", "examples", "test") {
			continue
		}
		for _, call := range []string{"os.Getenv", "os.LookupEnv", "os.Environ", "os.Args", "flag.Parse"} {
			if f.mentions(call) {
				t.Errorf("%s uses %s", f.name, call)
			}
		}
	}
}
