package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// codeBlock matches a code block of a page: its language, and its text.
var codeBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```")

// The files and commands of docs/kubernetes.md work up to where a cluster is needed.
func TestKubernetesPage(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy/kubernetes"), os.DirFS(filepath.Join(root, "deploy/kubernetes"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"my-cluster", "fanoutd-keys"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	server := fanoutd(t)
	text := strings.NewReplacer("~/", dir+"/", "make build\n", "", "bin/fanoutd ", server+" ").Replace(string(read(t, "docs/kubernetes.md")))
	for _, b := range codeBlock.FindAllStringSubmatch(text, -1) {
		switch name, _, _ := strings.Cut(strings.TrimPrefix(b[2], "# "), "\n"); b[1] + " " + name {
		case "yaml policy.yaml":
			write(t, filepath.Join(dir, "fanoutd-keys", name), b[2])
		case "yaml kustomization.yaml", "yaml fanoutd.yaml":
			write(t, filepath.Join(dir, "my-cluster", name), b[2])
		case "yaml add to kustomization.yaml", "yaml add to fanoutd.yaml":
			path := filepath.Join(dir, "my-cluster", strings.TrimPrefix(name, "add to "))
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, string(before)+b[2])
		default:
			if b[1] != "sh" {
				continue
			}
			if _, err := exec.LookPath("openssl"); err != nil && strings.Contains(b[2], "openssl") {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", b[2])
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", b[2], err, out)
			}
		}
	}
	checkSecrets(t, text, dir)
	if tokens, err := os.ReadFile(filepath.Join(dir, "fanoutd-keys/tokens")); err != nil || strings.Count(string(tokens), "sha256:") != 4 {
		t.Errorf("got tokens %q (%v)", tokens, err)
	}

	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "my-cluster"))
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.StatefulSet
	var config corev1.ConfigMap
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		switch r.GetKind() {
		case "StatefulSet":
			err = yaml.UnmarshalStrict(text, &set)
		case "ConfigMap":
			err = yaml.UnmarshalStrict(text, &config)
		}
		if err != nil {
			t.Error(err)
		}
	}
	pod := set.Spec.Template.Spec
	if got := pod.Containers[0].Image; got != "registry.example.com/fanoutd:4657a58" {
		t.Errorf("got image %s", got)
	}
	if n := *set.Spec.Replicas; n != 5 {
		t.Errorf("got %d replicas, want those of the example", n)
	}
	for key, value := range effective(t, config.Data["fanoutd.yaml"]) {
		path, _ := value.(string)
		if !strings.HasSuffix(key, "-file") || path == "" {
			continue
		}
		i := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(path) })
		if i < 0 {
			t.Errorf("%s: %s is not in a volume", key, path)
			continue
		}
		volume := pod.Containers[0].VolumeMounts[i].Name
		j := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
		if pod.Volumes[j].ConfigMap != nil {
			continue
		}
		if row := "| `" + pod.Volumes[j].Secret.SecretName + "` |"; !strings.Contains(text, row) {
			t.Errorf("%s: the page has no row %s", key, row)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
