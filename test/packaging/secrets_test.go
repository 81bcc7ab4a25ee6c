package packaging

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// checkSecrets runs the commands of docs/kubernetes.md that create secrets, with this program as
// kubectl and without a cluster: they create the secrets of the example, and the one of the
// PodMonitor. home is where the page's earlier commands left their files.
func checkSecrets(t *testing.T, page, home string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubectl := filepath.Join(dir, "kubectl")
	if err := os.Symlink(program, kubectl); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd-ca.crt", "etcd-client.crt", "etcd-client.key"} {
		write(t, filepath.Join(dir, name), name)
	}
	got := map[string][]string{}
	for _, block := range codeBlock.FindAllStringSubmatch(page, -1) {
		command := block[2]
		if block[1] != "" || !strings.Contains(command, " create secret ") {
			continue
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c",
			"kubectl() { command "+kubectl+` "$@" --dry-run=client -o yaml; }`+"\n"+command)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+home, "KUBECONFIG=")
		text, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		var secret corev1.Secret
		if err := yaml.UnmarshalStrict(text, &secret); err != nil {
			t.Errorf("%s: %v\n%s", command, err, text)
		}
		got[secret.Name] = slices.Sorted(maps.Keys(secret.Data))
	}
	want := map[string][]string{"fanoutd-prometheus": {"ca.crt", "token"}}
	for name, data := range exampleSecrets(t) {
		want[name] = slices.Sorted(maps.Keys(data))
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the commands create %v, want %v", got, want)
	}
}
