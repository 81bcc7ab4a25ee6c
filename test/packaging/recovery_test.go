package packaging

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// recovers checks the templates of the jobs that restore, and runs their commands with the files that they have.
func recovers(t *testing.T, all map[string]any) {
	t.Helper()
	restore, recovery := get[*batchv1.CronJob](t, all, "CronJob fanoutd-restore"), get[*batchv1.CronJob](t, all, "CronJob fanoutd-recover")
	set := get[*appsv1.StatefulSet](t, all, "StatefulSet fanoutd")
	for _, job := range []*batchv1.CronJob{restore, recovery} {
		isReplica(t, job, set)
		pod := job.Spec.JobTemplate.Spec.Template
		for key, o := range all {
			if s, ok := o.(*corev1.Service); ok && len(s.Spec.Selector) > 0 && selects(t, &metav1.LabelSelector{MatchLabels: s.Spec.Selector}, pod.Labels) {
				t.Errorf("%s sends requests to the job %s", key, job.Name)
			}
		}
		for _, rule := range get[*networkingv1.NetworkPolicy](t, all, "NetworkPolicy").Spec.Ingress {
			for _, p := range rule.Ports {
				if p.Port.StrVal == "peers" && !slices.ContainsFunc(rule.From, func(from networkingv1.NetworkPolicyPeer) bool {
					return selects(t, from.PodSelector, pod.Labels)
				}) {
					t.Errorf("the job %s cannot ask whether a replica runs", job.Name)
				}
			}
		}
	}
	snapshot := get[*batchv1.CronJob](t, all, "CronJob fanoutd-snapshots").Spec.JobTemplate.Spec.Template.Spec
	args := restore.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args
	file := args[len(args)-1]
	if taken := snapshot.Containers[0].Command; taken[len(taken)-1] != file || claimAt(snapshot, filepath.Dir(file)) != claimAt(restore.Spec.JobTemplate.Spec.Template.Spec, filepath.Dir(file)) {
		t.Errorf("the job restores %s, which is not the snapshot that was taken", file)
	}
	runJobs(t, all, restore, recovery)
	for _, job := range createdJobs(t, restore, recovery) {
		template := restore.DeepCopy()
		template.Name, template.Spec.JobTemplate.Spec = job.Name, job.Spec
		isReplica(t, template, set)
		if other := job.Name == "recover"; other != (job.Spec.Template.Spec.Hostname != "fanoutd-0") {
			t.Errorf("the page makes %s a job for %s", job.Name, job.Spec.Template.Spec.Hostname)
		}
	}
}

// createdJobs returns the jobs that the commands of docs/kubernetes.md create from templates, with this program as kubectl. A
// server here stands for that of Kubernetes.
func createdJobs(t *testing.T, templates ...*batchv1.CronJob) (jobs []batchv1.Job) {
	t.Helper()
	answers := map[string]any{
		"/api":  &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis": &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{Name: "batch", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "batch/v1", Version: "v1"}}}}},
		"/apis/batch/v1": &metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "batch/v1",
			APIResources: []metav1.APIResource{{Name: "cronjobs", SingularName: "cronjob", Kind: "CronJob", Namespaced: true, Verbs: []string{"get"}}},
		},
	}
	for _, c := range templates {
		c = c.DeepCopy()
		c.TypeMeta, c.Namespace = metav1.TypeMeta{Kind: "CronJob", APIVersion: "batch/v1"}, "fanoutd"
		answers["/apis/batch/v1/namespaces/fanoutd/cronjobs/"+c.Name] = c
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the client may be gone
	}))
	defer server.Close()
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(dir, "kubectl")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config"), `{"clusters": [{"name": "test", "cluster": {"server": "`+server.URL+`"}}],
"contexts": [{"name": "test", "context": {"cluster": "test"}}], "current-context": "test"}`)
	for _, block := range codeBlock.FindAllStringSubmatch(string(read(t, "docs/kubernetes.md")), -1) {
		jobs = append(jobs, createdBy(t, dir, block[2])...)
	}
	for _, block := range regexp.MustCompile("(?ms)^   ```\n(.*?)^   ```").FindAllStringSubmatch(string(read(t, "docs/kubernetes.md")), -1) {
		jobs = append(jobs, createdBy(t, dir, block[1])...)
	}
	if len(jobs) != len(templates) {
		t.Errorf("the page creates %d jobs, want one from each template", len(jobs))
	}
	return jobs
}

// createdBy returns the job that commands create. Other commands do nothing.
func createdBy(t *testing.T, dir, commands string) []batchv1.Job {
	t.Helper()
	if !strings.Contains(commands, " create job ") {
		return nil
	}
	const script = `kubectl() { case "$*" in *" create job "*) command ./kubectl "$@" --dry-run=client -o yaml;; *apply*) cat;; esac; }` + "\n"
	var job batchv1.Job
	text := run(t, dir, []string{"KUBECONFIG=" + filepath.Join(dir, "config"), "HOME=" + dir}, "bash", "-euo", "pipefail", "-c", script+commands)
	if err := yaml.UnmarshalStrict([]byte(text), &job); err != nil {
		t.Fatalf("%s: %v\n%s", commands, err, text)
	}
	return []batchv1.Job{job}
}

// isReplica checks that a job has the name, the data, the settings and the program of a replica.
func isReplica(t *testing.T, job *batchv1.CronJob, set *appsv1.StatefulSet) {
	t.Helper()
	if job.Spec.Suspend == nil || !*job.Spec.Suspend {
		t.Errorf("%s runs by itself", job.Name)
	}
	pod, server := job.Spec.JobTemplate.Spec.Template.Spec, set.Spec.Template.Spec
	c := pod.Containers[0]
	if c.Image != server.Containers[0].Image {
		t.Errorf("%s has the image %s", job.Name, c.Image)
	}
	ordinal := 0
	if _, err := fmt.Sscanf(pod.Hostname, set.Name+"-%d", &ordinal); err != nil || ordinal >= int(*set.Spec.Replicas) {
		t.Errorf("%s is called %s, which is no replica", job.Name, pod.Hostname)
	}
	if claim, want := claimAt(pod, "/data"), set.Spec.VolumeClaimTemplates[0].Name+"-"+pod.Hostname; claim != want {
		t.Errorf("%s has the data of %s, want %s", job.Name, claim, want)
	}
	for _, path := range []string{"/etc/fanoutd/fanoutd.yaml", "/etc/fanoutd/cluster"} {
		if got, want := volumeAt(pod, path), volumeAt(server, path); got.String() != want.String() {
			t.Errorf("%s has %v in %s, want %v", job.Name, got, path, want)
		}
	}
}

// volumeAt returns the volume that a pod has at a path.
func volumeAt(pod corev1.PodSpec, path string) corev1.VolumeSource {
	for _, m := range pod.Containers[0].VolumeMounts {
		for _, v := range pod.Volumes {
			if m.MountPath == path && m.Name == v.Name {
				return v.VolumeSource
			}
		}
	}
	return corev1.VolumeSource{}
}

// claimAt returns the name of the claim of the volume at a path.
func claimAt(pod corev1.PodSpec, path string) string {
	if claim := volumeAt(pod, path).PersistentVolumeClaim; claim != nil {
		return claim.ClaimName
	}
	return ""
}

// runJobs runs the commands of the jobs with a data directory that has other data.
func runJobs(t *testing.T, all map[string]any, restore, recovery *batchv1.CronJob) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "only root can give a process a name of its machine")
	}
	home := t.TempDir()
	folders := strings.NewReplacer("/etc/fanoutd/cluster", home+"/certs/fanoutd", "/etc/fanoutd/fanoutd.yaml", home+"/fanoutd.yaml", "/data", home+"/data", "/snapshots", home)
	write(t, home+"/fanoutd.yaml", folders.Replace(get[*corev1.ConfigMap](t, all, "ConfigMap fanoutd").Data["fanoutd.yaml"]))
	run(t, ".", nil, fanoutd(t), "cluster", "certs", home+"/certs", "fanoutd=*.fanoutd-peers.fanoutd.svc")
	takeSnapshot(t, home+"/former", home+"/fanoutd.db")
	run(t, ".", nil, "cp", "-r", home+"/former", home+"/data")

	start := func(job *batchv1.CronJob) (string, error) {
		pod := job.Spec.JobTemplate.Spec.Template.Spec
		args := []string{"--uts", "sh", "-c", `hostname "$0" && exec "$@"`, pod.Hostname, fanoutd(t)}
		for _, a := range pod.Containers[0].Args {
			args = append(args, folders.Replace(a))
		}
		out, err := exec.CommandContext(t.Context(), "unshare", args...).CombinedOutput()
		return string(out), err
	}
	for range 2 { // the second time, it also replaces what the first one has restored
		out, err := start(restore)
		if err != nil || !strings.Contains(out, "Start this server. On the others (fanoutd-1, fanoutd-2)") {
			t.Fatalf("restore: %v\n%s", err, out)
		}
	}
	for _, former := range []string{"etcd", "etcd.before-restore", "etcd.before-restore-2"} {
		if _, err := os.Stat(filepath.Join(home, "data", former, "member/snap/db")); err != nil {
			t.Error(err)
		}
	}
	// The data belongs to a cluster of one now, so there is nothing to recover.
	if out, err := start(recovery); err == nil || !strings.Contains(out, "the only member of its cluster") {
		t.Errorf("recover: %v\n%s", err, out)
	}
}

// takeSnapshot writes a snapshot of a new server with this data directory.
func takeSnapshot(t *testing.T, dir, file string) {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	port.Close()
	server := exec.Command(fanoutd(t), "--data-dir", dir, "--listen", address, "--admin-listen", "")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	}()
	// The module does not have package poll.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctl := filepath.Join(t.TempDir(), "fanoutctl")
	run(t, root, nil, "go", "build", "-o", ctl, "./cmd/fanoutctl")
	for {
		out, err := exec.CommandContext(ctx, ctl, "cluster", "snapshot", file, "--server", address).CombinedOutput()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("no snapshot: %v\n%s", err, out)
		}
	}
}
