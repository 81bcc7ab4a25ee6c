package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// startShared starts a server whose resource "shared" belongs to another program, too. That program
// uses the client of etcd, with the keys of the resource.
func startShared(t *testing.T) (address string, etcd clientv3.KV) {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	resource := config.NewResource("shared")
	cfg.Resources = []config.Resource{resource}
	address = inprocess.Start(t, cfg).Address()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{cfg.EmbeddedEtcdListen}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return address, namespace.NewKV(client.KV, resource.Prefix)
}

// The commands that write replace a value of another program only with a flag, and name it.
func TestValuesOfOtherProgramsNeedAFlag(t *testing.T) {
	dir := t.TempDir()
	address, etcd := startShared(t)
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const foreign = `{"rps": 100}`
	fanoutctl := func(args ...string) (code int, out, errs string) {
		environ := []string{"HOME=" + dir, "FANOUTCTL_SERVER=" + address, "FANOUTCTL_EDITOR=sed -i s/100/200/", "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
		var stdout, stderr strings.Builder
		code = run(t.Context(), args, environ, strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	for _, test := range []struct {
		code int
		args []string
	}{
		{exitConflict, []string{"put", "shared", "k", "x"}},
		{exitConflict, []string{"edit", "shared", "k"}},
		{exitFailed, []string{"import", "shared", file("documents.yaml", "key: k\ntext: x\n")}}, // as for other refused objects
		{exitConflict, []string{"txn", "shared", "--put", "k=x"}},
		{exitConflict, []string{"txn", "shared", file("operations.yaml", "- put: k\n  text: x\n")}},
	} {
		args := test.args
		if _, err := etcd.Put(t.Context(), "k", foreign); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := fanoutctl("describe", "shared", "k"); code != exitOK || !strings.Contains(out, "the server cannot decode it; these are the stored bytes\n  "+foreign+"\n") {
			t.Errorf("describe: got exit code %d, %s%s", code, out, errs)
		}
		if code, _, errs := fanoutctl(args...); code != test.code || !strings.Contains(errs, "another program") || !strings.Contains(errs, "use --overwrite-opaque") {
			t.Errorf("fanoutctl %s: got exit code %d, %s", strings.Join(args, " "), code, errs)
		}
		if got, err := etcd.Get(t.Context(), "k"); err != nil || string(got.Kvs[0].Value) != foreign {
			t.Errorf("fanoutctl %s has stored %v, %v", strings.Join(args, " "), got, err)
		}
		if code, _, errs := fanoutctl(append(args, "--overwrite-opaque")...); code != exitOK {
			t.Errorf("fanoutctl %s --overwrite-opaque: got exit code %d, %s", strings.Join(args, " "), code, errs)
		}
	}
}

// An import of another program's value would store it in the form of the codec. The export says so,
// whatever its target.
func TestExportWarnsOfValuesOfOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	address, etcd := startShared(t)
	export := func(target string) string {
		environ := []string{"HOME=" + dir, "FANOUTCTL_SERVER=" + address}
		var out, errs strings.Builder
		if code := run(t.Context(), []string{"export", "shared", target}, environ, strings.NewReader(""), &out, &errs); code != exitOK {
			t.Errorf("export to %s: got exit code %d, %s", target, code, errs.String())
		}
		return errs.String()
	}
	targets := []string{"-", filepath.Join(dir, "all.yaml"), dir + "/each/"}
	for _, target := range targets {
		if errs := export(target); strings.Contains(errs, "warning") {
			t.Errorf("export of nothing to %s: %s", target, errs)
		}
	}
	for _, key := range []string{"a", "b"} {
		if _, err := etcd.Put(t.Context(), key, `{"rps": 100}`); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range targets {
		if errs := export(target); !strings.Contains(errs, "warning: the server cannot decode the values of 2 objects") {
			t.Errorf("export to %s: got %q, want a warning", target, errs)
		}
	}
}
