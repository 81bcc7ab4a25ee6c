package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// executed has the test that runs the commands of a page.
var executed = map[string]string{
	"README.md":                       "test/readme.TestTour",
	"conformance/README.md":           "test/readme.TestConformancePage",
	"docs/clients/go.md":              "test/examples.TestPages",
	"docs/clients/node.md":            "test/examples.TestPages",
	"docs/clients/other.md":           "test/stubs.TestPage",
	"docs/clients/python.md":          "test/examples.TestPages",
	"docs/feature-flags.md":           "test/readme.TestFeatureFlags",
	"docs/from-etcd.md":               "test/readme.TestFromEtcd",
	"docs/getting-started.md":         "test/readme.TestGettingStarted",
	"docs/install.md":                 "test/packaging.TestDebianPackages",
	"docs/kubernetes.md":              "test/packaging.TestKubernetesPage",
	"docs/reference/configuration.md": "test/readme.TestFromEtcd",
	"docs/reference/fanoutctl.md":     "test/readme.TestTasks",
	"docs/reference/http.md":          "test/readme.TestHTTPPage",
	"docs/tasks/backup.md":            "test/readme.TestBackupPage",
	"docs/tasks/certificates.md":      "cmd/fanoutd.TestDocumentedCertificatesWork",
	"docs/tasks/cluster.md":           "test/readme.TestClusterPage",
	"docs/tasks/deploy-gate.md":       "test/readme.TestTasks",
	"docs/tasks/encrypt.md":           "test/readme.TestTasks",
	"docs/tasks/environments.md":      "test/readme.TestEnvironmentsPage",
	"docs/tasks/external-etcd.md":     "test/readme.TestExternalEtcdPage",
	"docs/tasks/files.md":             "test/readme.TestGettingStarted",
	"docs/tasks/history.md":           "test/readme.TestGettingStarted",
	"docs/tasks/monitor.md":           "test/observability.TestDocumentedCommandsWork",
	"docs/tasks/protect.md":           "cmd/fanoutd.TestDocumentedSecurityExamplesWork",
	"docs/tasks/subscribe.md":         "test/readme.TestGettingStarted",
	"docs/tasks/validate.md":          "test/readme.TestValidatePage",
	"examples/README.md":              "test/examples.TestExamples",
}

// unexecuted says why some commands of a page, or all of them, are not run.
var unexecuted = map[string]string{
	"CONTRIBUTING.md":                 "it runs tests",
	"docs/dev/benchmarks.md":          "measurements take minutes; make test-bench tests the program",
	"docs/dev/capacity.md":            "the program is tested by make test-bench",
	"docs/install.md":                 "apt, dnf, systemctl and docker change the machine; test/packaging installs the packages without them",
	"docs/reference/configuration.md": "buf and protoc may be missing",
}

// TestCommandsOfPagesAreExecuted checks that each page with commands has a test that runs them, or a reason why not.
func TestCommandsOfPagesAreExecuted(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("(?m)^ *```(sh|console)$")
	found := map[string]bool{}
	for page := range strings.Lines(string(out)) {
		page = strings.TrimSpace(page)
		text, err := os.ReadFile(filepath.Join(root, page))
		if err == nil && commands.Match(text) {
			found[page] = true
			if executed[page]+unexecuted[page] == "" {
				t.Errorf("%s has commands, but commands_test.go has no test that runs them", page)
			}
		}
	}
	for page := range unexecuted {
		if !found[page] {
			t.Errorf("commands_test.go has a reason for %s, which has no commands", page)
		}
	}
	for page, test := range executed {
		if !found[page] {
			t.Errorf("commands_test.go has a test for %s, which has no commands", page)
		}
		folder, name, _ := strings.Cut(test, ".")
		if !declares(t, folder, name, filepath.Base(page)) {
			t.Errorf("%s has no file with %s that names %s", folder, name, page)
		}
	}
}

// declares reports whether a file of the folder declares the test and names the page.
func declares(t *testing.T, folder, test, page string) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+test+"(") && strings.Contains(string(text), page) {
			return true
		}
	}
	return false
}
