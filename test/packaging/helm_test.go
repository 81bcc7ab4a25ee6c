package packaging

import (
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

const chartFolder = "deploy/helm/fanoutd"

// rendered returns the objects of the chart in the repository, by kind and name.
func rendered(t *testing.T, values map[string]any) (map[string]any, error) {
	t.Helper()
	return render(t, filepath.Join(root, chartFolder), values)
}

// render returns the objects of a chart, by kind and name.
func render(t *testing.T, path string, values map[string]any) (map[string]any, error) {
	t.Helper()
	chart, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "fanoutd", Namespace: "fanoutd", IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities) // checks the schema
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, object := range regexp.MustCompile(`(?m)^---\n`).Split(text, -1) {
			var head struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(object), &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, object)
			}
			if head.Kind != "" {
				found[head.Kind+" "+head.Metadata.Name] = decode(t, head.Kind, []byte(object))
			}
		}
	}
	return found, nil
}

// TestChart renders the chart with Helm. It has the same parts as deploy/kubernetes.
func TestChart(t *testing.T) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // Helm's linter reports to it as well
	for _, m := range lint.RunAll(filepath.Join(root, chartFolder), nil, "fanoutd").Messages {
		if m.Severity >= support.WarningSev {
			t.Errorf("lint: %v", m)
		}
	}
	all, err := rendered(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	isComplete(t, all)
	isCluster(t, all)

	external, err := rendered(t, map[string]any{
		"etcd": map[string]any{"external": true}, "config": map[string]any{"etcd-endpoints": []any{"https://etcd:2379"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	isComplete(t, external)
	usesExternalEtcd(t, external)

	withSnapshots, err := rendered(t, map[string]any{"snapshots": map[string]any{"enabled": true}})
	if err != nil {
		t.Fatal(err)
	}
	takesSnapshots(t, withSnapshots)
	recovers(t, withSnapshots)

	changed, err := rendered(t, map[string]any{
		"image":         map[string]any{"repository": "registry.example.com/fanoutd", "tag": "1.2.3"},
		"config":        map[string]any{"log-level": "debug"},
		"networkPolicy": map[string]any{"enabled": false},
		"persistence":   map[string]any{"size": "20Gi", "storageClass": "fast"},
		"antiAffinity":  "preferred",

		"imagePullSecrets":  []any{map[string]any{"name": "registry"}},
		"nodeSelector":      map[string]any{"pool": "config"},
		"tolerations":       []any{map[string]any{"key": "config", "operator": "Exists"}},
		"extraVolumes":      []any{map[string]any{"name": "keys", "secret": map[string]any{"secretName": "fanoutd-keys"}}},
		"extraVolumeMounts": []any{map[string]any{"name": "keys", "mountPath": "/etc/fanoutd/keys", "readOnly": true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, before := podsOf(t, all)
	_, _, after := podsOf(t, changed)
	claim := get[*appsv1.StatefulSet](t, changed, "StatefulSet").Spec.VolumeClaimTemplates[0].Spec
	if claim.Resources.Requests.Storage().String() != "20Gi" || *claim.StorageClassName != "fast" {
		t.Errorf("got volumes %+v", claim)
	}
	if affinity := after.Spec.Affinity.PodAntiAffinity; len(affinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 || len(affinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("got affinity %+v, want a preference", affinity)
	}
	if got := after.Spec.Containers[0].Image; got != "registry.example.com/fanoutd:1.2.3" {
		t.Errorf("got image %s", got)
	}
	spec := after.Spec
	volume, mount := spec.Volumes[len(spec.Volumes)-1], spec.Containers[0].VolumeMounts[len(spec.Containers[0].VolumeMounts)-1]
	if volume.Name != "keys" || volume.Secret.SecretName != "fanoutd-keys" || mount.Name != "keys" || mount.MountPath != "/etc/fanoutd/keys" {
		t.Errorf("got volume %v, mounted as %v", volume, mount)
	}
	if len(spec.ImagePullSecrets) != 1 || spec.NodeSelector["pool"] != "config" || len(spec.Tolerations) != 1 {
		t.Errorf("got pull secrets %v, node selector %v, tolerations %v", spec.ImagePullSecrets, spec.NodeSelector, spec.Tolerations)
	}
	if before.Annotations["checksum/config"] == after.Annotations["checksum/config"] {
		t.Error("a change of the configuration does not start a rollout")
	}
	if changed["NetworkPolicy fanoutd"] != nil {
		t.Error("the network policy cannot be disabled")
	}
	for _, wrong := range []map[string]any{
		{"replicas": 0},
		{"typo": true},
		{"image": map[string]any{"repository": ""}},
		{"replicas": 2},
		{"config": map[string]any{"etcd-endpoints": []any{"https://etcd:2379"}}},
		{"etcd": map[string]any{"external": true}},
		{"etcd": map[string]any{"external": true}, "config": map[string]any{"etcd-endpoints": []any{}}},
		{"config": map[string]any{"tls-client-auth": "required"}},
	} {
		if _, err := rendered(t, wrong); err == nil {
			t.Errorf("the schema accepts %v", wrong)
		}
	}
}

// TestReleasedChart checks that the chart of a release installs the image of that release.
func TestReleasedChart(t *testing.T) {
	all, err := render(t, released(t, "fanoutd-"+version(t)+".tgz"), nil)
	if err != nil {
		t.Fatal(err)
	}
	isComplete(t, all)
	set := get[*appsv1.StatefulSet](t, all, "StatefulSet")
	if got := set.Spec.Template.Spec.Containers[0].Image; got != "fanoutd:"+version(t) {
		t.Errorf("got image %s, want that of version %s", got, version(t))
	}
	if got := set.Labels["helm.sh/chart"]; got != "fanoutd-"+version(t) {
		t.Errorf("got chart %s", got)
	}
}
