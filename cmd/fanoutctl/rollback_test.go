package main

import (
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// startRemembering starts a server whose resource "past" has a history, and that accepts requests of 128 KiB.
func startRemembering(t *testing.T) (address, etcd, prefix string) {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	cfg.MaxValueSize, cfg.MaxRequestSize = 64*config.KiB, 128*config.KiB
	resource := config.NewResource("past")
	resource.History = config.NewHistory()
	resource.Cache = false // old revisions are read from etcd, and gone after its compaction
	cfg.Resources = []config.Resource{resource}
	return inprocess.Start(t, cfg).Address(), cfg.EmbeddedEtcdListen, resource.Prefix
}

// A server may accept less than rollback expects. Then nothing is written, or the batches become smaller.
func TestRollbackMakesSmallerBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address, _, _ := startRemembering(t)
	const objects = 10
	large := strings.Repeat("x", 40<<10)
	var old string
	for _, value := range []string{large, "small"} {
		for i := range objects {
			out, errs, code := runWithExitCode(t, address, "put", "past", fmt.Sprintf("p/%d", i), value)
			if code != exitOK {
				t.Fatal(errs)
			}
			if value == large {
				old = strings.TrimSpace(out)
			}
		}
	}
	if _, errs, code := runWithExitCode(t, address, "rollback", "past", "p/", "--to", old, "--yes"); code != exitUsage || !strings.Contains(errs, "nothing was changed: the changes do not fit") || !strings.Contains(errs, "--batches") {
		t.Errorf("in one transaction: got exit code %d, %s", code, errs)
	}
	if out, _, _ := runWithExitCode(t, address, "get", "past", "p/0"); out != "small" {
		t.Errorf("got %d bytes after a refusal, want the value of before", len(out))
	}
	if _, errs, code := runWithExitCode(t, address, "rollback", "past", "p/", "--to", old, "--yes", "--batches"); code != exitOK {
		t.Errorf("in batches: got exit code %d, %s", code, errs)
	}
	for i := range objects {
		if out, _, _ := runWithExitCode(t, address, "get", "past", fmt.Sprintf("p/%d", i)); out != large {
			t.Errorf("p/%d: got %d bytes, want the former value", i, len(out))
		}
	}
}

// An object that another program deleted after the revision is listed, although its last record is older.
func TestRollbackListsWhatAnotherProgramDeleted(t *testing.T) {
	address, etcd, prefix := startRemembering(t)
	var old string
	for _, key := range []string{"p/a", "p/b"} {
		out, errs, code := runWithExitCode(t, address, "put", "past", key, "1")
		if code != exitOK {
			t.Fatal(errs)
		}
		old = strings.TrimSpace(out)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if r, err := c.Delete(t.Context(), prefix+"p/a"); err != nil || r.Deleted != 1 {
		t.Fatal(r, err)
	}
	if out, errs, code := runWithExitCode(t, address, "rollback", "past", "p/", "--to", old, "--dry-run"); code != exitOK || out != "create p/a\n" {
		t.Errorf("etcd has the revision: got exit code %d, %s%s", code, out, errs)
	}
	if _, errs, code := runWithExitCode(t, address, "reclaim"); code != exitOK {
		t.Fatal(errs)
	}
	if out, errs, code := runWithExitCode(t, address, "rollback", "past", "p/", "--to", old, "--dry-run"); code != exitPartial || out != "" || !strings.Contains(errs, "p/a stays as it is: another program deleted the object") {
		t.Errorf("etcd has forgotten the revision: got exit code %d, %s%s", code, out, errs)
	}
}

// A value of another program is named in the plan, and replaced only with a flag.
func TestRollbackOverAnotherProgramNeedsAFlag(t *testing.T) {
	address, etcd, prefix := startRemembering(t)
	out, errs, code := runWithExitCode(t, address, "put", "past", "p/a", "mine")
	if code != exitOK {
		t.Fatal(errs)
	}
	old := strings.TrimSpace(out)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Put(t.Context(), prefix+"p/a", "foreign"); err != nil {
		t.Fatal(err)
	}
	rollback := []string{"rollback", "past", "p/", "--to", old}
	const named, hint = "the present value of p/a, which may belong to another program", "use --overwrite-opaque to replace it"
	if out, errs, code := runWithExitCode(t, address, append(rollback, "--dry-run")...); code != exitOK || out != "update p/a\n" || !strings.Contains(errs, named) || !strings.Contains(errs, hint) {
		t.Errorf("dry run: got exit code %d, %s%s", code, out, errs)
	}
	if _, errs, code := runWithExitCode(t, address, append(rollback, "--yes")...); code != exitConflict || !strings.Contains(errs, named) || !strings.Contains(errs, hint) {
		t.Errorf("without the flag: got exit code %d, %s", code, errs)
	}
	if _, errs, code := runWithExitCode(t, address, append(rollback, "--yes", "--overwrite-opaque")...); code != exitOK {
		t.Errorf("with the flag: got exit code %d, %s", code, errs)
	}
	if out, _, _ := runWithExitCode(t, address, "get", "past", "p/a"); out != "mine" {
		t.Errorf("got %q, want the restored value", out)
	}
}
