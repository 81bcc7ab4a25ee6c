package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// The commands that write replace a value of another program only with a flag, and name it.
func TestValuesOfOtherProgramsNeedAFlag(t *testing.T) {
	dir := t.TempDir()
	cfg := inprocess.Config(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	resource := config.NewResource("shared")
	cfg.Resources = []config.Resource{resource}
	address := inprocess.Start(t, cfg).Address()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{cfg.EmbeddedEtcdListen}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
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
		if _, err := etcd.Put(t.Context(), resource.Prefix+"k", foreign); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := fanoutctl("describe", "shared", "k"); code != exitOK || !strings.Contains(out, "the server cannot decode it; these are the stored bytes\n  "+foreign+"\n") {
			t.Errorf("describe: got exit code %d, %s%s", code, out, errs)
		}
		if code, _, errs := fanoutctl(args...); code != test.code || !strings.Contains(errs, "another program") || !strings.Contains(errs, "use --overwrite-opaque") {
			t.Errorf("fanoutctl %s: got exit code %d, %s", strings.Join(args, " "), code, errs)
		}
		if got, err := etcd.Get(t.Context(), resource.Prefix+"k"); err != nil || string(got.Kvs[0].Value) != foreign {
			t.Errorf("fanoutctl %s has stored %v, %v", strings.Join(args, " "), got, err)
		}
		if code, _, errs := fanoutctl(append(args, "--overwrite-opaque")...); code != exitOK {
			t.Errorf("fanoutctl %s --overwrite-opaque: got exit code %d, %s", strings.Join(args, " "), code, errs)
		}
	}
}
