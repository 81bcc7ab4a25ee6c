package packaging

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests returns the objects of kubectl apply -k with deploy/kubernetes as the base and these components of it, by
// kind and name. Unknown fields are errors.
func manifests(t *testing.T, components ...string) map[string]any {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "base"), os.DirFS(filepath.Join(root, "deploy/kubernetes"))); err != nil {
		t.Fatal(err)
	}
	var kustomization strings.Builder
	kustomization.WriteString("namespace: fanoutd\nresources: [base]\nimages: [{name: fanoutd, newName: registry.example.com/fanoutd, newTag: '1.2.3'}]\ncomponents:\n")
	for _, c := range components {
		kustomization.WriteString("  - base/" + c + "\n")
	}
	write(t, filepath.Join(dir, "kustomization.yaml"), kustomization.String())
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, r := range resources.Resources() {
		text, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		found[r.GetKind()+" "+r.GetName()] = decode(t, r.GetKind(), text)
	}
	return found
}

// decode returns an object of Kubernetes. Unknown fields are errors.
func decode(t *testing.T, kind string, text []byte) (into any) {
	t.Helper()
	switch kind {
	case "Namespace":
		into = &corev1.Namespace{}
	case "ServiceAccount":
		into = &corev1.ServiceAccount{}
	case "Service":
		into = &corev1.Service{}
	case "ConfigMap":
		into = &corev1.ConfigMap{}
	case "Deployment":
		into = &appsv1.Deployment{}
	case "StatefulSet":
		into = &appsv1.StatefulSet{}
	case "CronJob":
		into = &batchv1.CronJob{}
	case "PersistentVolumeClaim":
		into = &corev1.PersistentVolumeClaim{}
	case "PodDisruptionBudget":
		into = &policyv1.PodDisruptionBudget{}
	case "NetworkPolicy":
		into = &networkingv1.NetworkPolicy{}
	default:
		t.Fatalf("unknown kind %s", kind)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Errorf("%s: %v\n%s", kind, err, text)
	}
	return into
}

// get returns the only object of its type whose key has this prefix.
func get[T any](t *testing.T, all map[string]any, begin string) T {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if o, ok := all[key].(T); ok && strings.HasPrefix(key, begin) {
			return o
		}
	}
	t.Fatalf("no object %s", begin)
	panic("unreachable")
}

func TestKubernetes(t *testing.T) {
	all := manifests(t)
	isComplete(t, all)
	isCluster(t, all)

	all = manifests(t, "snapshots")
	isComplete(t, all)
	isCluster(t, all)
	takesSnapshots(t, all)

	all = manifests(t, "snapshots", "recovery")
	isCluster(t, all)
	recovers(t, all)

	external := manifests(t, "external-etcd")
	isComplete(t, external)
	usesExternalEtcd(t, external)
}

// usesExternalEtcd checks that an installation has no cluster of its own.
func usesExternalEtcd(t *testing.T, all map[string]any) {
	t.Helper()
	if all["StatefulSet fanoutd"] != nil || all["Service fanoutd-peers"] != nil {
		t.Error("the replicas have volumes in front of an etcd that has the data")
	}
	for _, rule := range get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy").Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port.StrVal == "peers" {
				t.Error("the network policy has a rule for members")
			}
		}
	}
}

// isCluster checks that the replicas of an installation find each other, keep their data, and are not stopped together.
func isCluster(t *testing.T, all map[string]any) {
	t.Helper()
	set := get[*appsv1.StatefulSet](t, all, "StatefulSet fanoutd")
	spec := set.Spec.Template.Spec
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Error("the second replica waits for the first, which waits for it")
	}
	peers := get[*corev1.Service](t, all, "Service "+set.Spec.ServiceName)
	if peers.Spec.ClusterIP != corev1.ClusterIPNone || !peers.Spec.PublishNotReadyAddresses {
		t.Errorf("the replicas cannot find each other before they are ready: %+v", peers.Spec)
	}
	if !maps.Equal(peers.Spec.Selector, set.Spec.Selector.MatchLabels) {
		t.Errorf("the service of the members selects %v", peers.Spec.Selector)
	}

	// Each pod is a member, at the host that the service gives it, and others may connect to its ports.
	var settings struct {
		DataDir string `json:"data-dir"`
		Cluster struct {
			Members              map[string]string
			PeerPort, ClientPort int32
		}
	}
	text := run(t, ".", nil, fanoutd(t), "config", "print", "--config", configFile(t, all))
	if err := yaml.Unmarshal([]byte(strings.NewReplacer("peer-port", "peerPort", "client-port", "clientPort").Replace(text)), &settings); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for i := range *set.Spec.Replicas {
		pod := fmt.Sprintf("%s-%d", set.Name, i)
		want[pod] = fmt.Sprintf("%s.%s.%s.svc", pod, set.Spec.ServiceName, "fanoutd")
	}
	if !maps.Equal(settings.Cluster.Members, want) {
		t.Errorf("got members %v, want %v", settings.Cluster.Members, want)
	}
	allowed := map[string]bool{}
	for _, rule := range get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy").Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port.StrVal != "peers" && p.Port.StrVal != "etcd" {
				continue
			}
			allowed[p.Port.StrVal] = true
			for _, from := range rule.From {
				if from.NamespaceSelector != nil || selects(t, from.PodSelector, map[string]string{"app.kubernetes.io/name": "other"}) {
					t.Errorf("others than replicas can reach the port %s: %v", p.Port.StrVal, from)
				}
			}
		}
	}
	ports := map[string]int32{}
	for _, p := range spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	if ports["peers"] != settings.Cluster.PeerPort || ports["etcd"] != settings.Cluster.ClientPort || !allowed["peers"] || !allowed["etcd"] {
		t.Errorf("got ports %v for peers at %d and clients at %d, allowed %v", ports, settings.Cluster.PeerPort, settings.Cluster.ClientPort, allowed)
	}
	for _, p := range peers.Spec.Ports {
		if ports[p.TargetPort.StrVal] != p.Port {
			t.Errorf("port %d of the members has target %q", p.Port, p.TargetPort.StrVal)
		}
	}

	// The data is on a volume.
	if len(set.Spec.VolumeClaimTemplates) != 1 || !slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return m.Name == set.Spec.VolumeClaimTemplates[0].Name && m.MountPath == settings.DataDir && !m.ReadOnly
	}) {
		t.Errorf("the data in %s is not on a volume", settings.DataDir)
	}
	// A replica may wait for others without being restarted.
	if path := spec.Containers[0].StartupProbe.HTTPGet.Path; path != spec.Containers[0].LivenessProbe.HTTPGet.Path {
		t.Errorf("a replica that waits is restarted if %s fails", path)
	}
	budget := get[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget").Spec
	if budget.MaxUnavailable.IntValue() != 1 || *budget.UnhealthyPodEvictionPolicy != policyv1.IfHealthyBudget {
		t.Errorf("got budget %+v", budget)
	}
}

// selects reports whether a selector matches labels.
func selects(t *testing.T, selector *metav1.LabelSelector, pod map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(pod))
}

// takesSnapshots checks the job that takes snapshots.
func takesSnapshots(t *testing.T, all map[string]any) {
	t.Helper()
	pod := get[*batchv1.CronJob](t, all, "CronJob fanoutd-snapshots").Spec.JobTemplate.Spec.Template
	_, labels, server := podsOf(t, all)
	selected := true
	for name, value := range labels {
		selected = selected && pod.Labels[name] == value
	}
	if selected {
		t.Errorf("the services send requests to the job, which has the labels %v", pod.Labels)
	}
	c := pod.Spec.Containers[0]
	if c.Image != server.Spec.Containers[0].Image {
		t.Errorf("got image %s", c.Image)
	}
	paths := map[string]corev1.VolumeSource{}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		paths[m.MountPath] = pod.Spec.Volumes[i].VolumeSource
	}
	environ := map[string]string{}
	for _, e := range c.Env {
		environ[e.Name] = e.Value
	}
	secret := exampleSecrets(t)["fanoutd-snapshots"]
	for _, name := range []string{"FANOUTCTL_CA_FILE", "FANOUTCTL_TOKEN_FILE"} {
		source := paths[filepath.Dir(environ[name])].Secret
		if source == nil || source.SecretName != "fanoutd-snapshots" || secret[filepath.Base(environ[name])] == "" {
			t.Errorf("the job does not have the file of %s: %v", name, source)
		}
	}
	file := c.Command[len(c.Command)-1]
	if claim := paths[filepath.Dir(file)].PersistentVolumeClaim; claim == nil || all["PersistentVolumeClaim "+claim.ClaimName] == nil {
		t.Errorf("the snapshot %s is not on a volume that stays", file)
	}
	if host := strings.TrimSuffix(environ["FANOUTCTL_SERVER"], ".fanoutd.svc:7420"); all["Service "+host] == nil {
		t.Errorf("there is no service %s", host)
	}
	// The command exists: its help knows the arguments.
	if help := run(t, root, nil, "go", append([]string{"run", "./cmd/fanoutctl"}, append(c.Command[1:len(c.Command)-1:len(c.Command)-1], "--help")...)...); !strings.Contains(help, "snapshot FILE") {
		t.Errorf("%v is not a command: %s", c.Command, help)
	}
}

// configFile writes the configuration of an installation to a file.
func configFile(t *testing.T, all map[string]any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanoutd.yaml")
	write(t, path, get[*corev1.ConfigMap](t, all, "ConfigMap fanoutd").Data["fanoutd.yaml"])
	return path
}

// podsOf returns what is common to the StatefulSet and the Deployment of an installation.
func podsOf(t *testing.T, all map[string]any) (replicas int32, selector map[string]string, pod corev1.PodTemplateSpec) {
	t.Helper()
	if set, ok := all["StatefulSet fanoutd"].(*appsv1.StatefulSet); ok {
		return *set.Spec.Replicas, set.Spec.Selector.MatchLabels, set.Spec.Template
	}
	d := get[*appsv1.Deployment](t, all, "Deployment fanoutd")
	return *d.Spec.Replicas, d.Spec.Selector.MatchLabels, d.Spec.Template
}

// isComplete checks that the objects of an installation fit together, and that the server accepts
// its configuration.
func isComplete(t *testing.T, all map[string]any) {
	t.Helper()
	replicas, labels, pod := podsOf(t, all)
	for name, value := range labels {
		if pod.Labels[name] != value {
			t.Errorf("the pods lack the label %s", name)
		}
	}
	if len(labels) == 0 {
		t.Fatal("all pods are selected")
	}
	if replicas != 3 {
		t.Errorf("got %d replicas", replicas)
	}
	selects := func(what string, selector map[string]string) {
		t.Helper()
		if !maps.Equal(selector, labels) {
			t.Errorf("%s: got selector %v, which does not match the pods", what, selector)
		}
	}
	selects("the budget", get[*policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget").Spec.Selector.MatchLabels)
	selects("the network policy", get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy").Spec.PodSelector.MatchLabels)
	container := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, name := range []string{"fanoutd", "fanoutd-admin", "fanoutd-one-address"} {
		service := get[*corev1.Service](t, all, "Service "+name)
		selects(name, service.Spec.Selector)
		for _, p := range service.Spec.Ports {
			if ports[p.TargetPort.StrVal] != p.Port {
				t.Errorf("port %d of %s: got target %q", p.Port, name, p.TargetPort.StrVal)
			}
		}
	}
	for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe} {
		if probe == nil || ports[probe.HTTPGet.Port.StrVal] == 0 {
			t.Errorf("the %s probe has no valid target", name)
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		selects("the spread over "+c.TopologyKey, c.LabelSelector.MatchLabels)
	}
	if affinity := pod.Spec.Affinity; affinity != nil {
		for _, c := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			selects("the distance from "+c.TopologyKey, c.LabelSelector.MatchLabels)
		}
	}

	// The server accepts the configuration, and has enough time to stop.
	text := get[*corev1.ConfigMap](t, all, "ConfigMap fanoutd").Data["fanoutd.yaml"]
	settings := effective(t, text)
	if got := fmt.Sprint(settings["listen"], settings["admin-listen"]); got != fmt.Sprintf(":%d:%d", ports["grpc"], ports["admin"]) {
		t.Errorf("got listen address %s", got)
	}
	if auth := settings["tls-client-auth"]; auth != "optional" {
		t.Errorf("probes have no client certificate, and the server requires %v", auth)
	}
	grace := time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	if stop := duration(t, settings["drain-delay"]) + duration(t, settings["drain-period"]) + duration(t, settings["shutdown-grace"]); stop >= grace {
		t.Errorf("a stop may take %v, got a grace period of %v", stop, grace)
	}
	// Callers need credentials, and do what a policy allows.
	if settings["token-file"] == "" || settings["policy-file"] == "" {
		t.Errorf("got token file %v and policy %v", settings["token-file"], settings["policy-file"])
	}
	examples := exampleSecrets(t)
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && len(examples[v.Secret.SecretName]) == 0 {
			t.Errorf("there is no example of the secret %s", v.Secret.SecretName)
		}
	}
	// Every configured file is in a volume, and in the example if that is a secret.
	for key, value := range settings {
		path, _ := value.(string)
		if !strings.HasSuffix(key, "-file") || path == "" {
			continue
		}
		i := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return filepath.Dir(path) == m.MountPath })
		if i < 0 {
			t.Errorf("%s: %s is not in a volume", key, path)
			continue
		}
		j := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == container.VolumeMounts[i].Name })
		if name := pod.Spec.Volumes[j].Secret.SecretName; examples[name][filepath.Base(path)] == "" {
			t.Errorf("%s: the example of the secret %s lacks %s", key, name, filepath.Base(path))
		}
	}
}

// exampleSecrets returns the data of the secrets of deploy/kubernetes, by name.
func exampleSecrets(t *testing.T) map[string]map[string]string {
	t.Helper()
	examples := map[string]map[string]string{}
	for text := range strings.SplitSeq(string(read(t, "deploy/kubernetes/secrets.example.yaml")), "\n---\n") {
		var secret corev1.Secret
		if err := yaml.UnmarshalStrict([]byte(text), &secret); err != nil {
			t.Fatal(err)
		}
		examples[secret.Name] = secret.StringData
	}
	return examples
}

// effective returns the settings that result from a configuration file.
func effective(t *testing.T, text string, environ ...string) map[string]any {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanoutd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := map[string]any{}
	if err := yaml.Unmarshal([]byte(run(t, ".", environ, fanoutd(t), "config", "print", "--config", path)), &settings); err != nil {
		t.Fatal(err)
	}
	return settings
}

func duration(t *testing.T, setting any) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(fmt.Sprint(setting))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
