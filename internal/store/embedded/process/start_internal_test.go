package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A call that waits for a goroutine of etcd ends when that goroutine has failed.
func TestCallsEndWhenEtcdFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := NewFatalErrors()
		failed := make(chan struct{})
		defer close(failed)
		first := errors.New("no such file")
		err := fatal.During(func() error {
			fatal.Report(first)
			<-failed // as etcd waits for a goroutine that cannot go on
			return nil
		})
		if !errors.Is(err, first) || fatal.First() != first {
			t.Errorf("got %v, %v, want %v", err, fatal.First(), first)
		}
		fatal.Report(errors.New("a consequence"))
		if err := fatal.During(func() error { <-failed; return nil }); !errors.Is(err, first) {
			t.Errorf("got %v, want %v", err, first)
		}
	})
}

// A raft snapshot that a full disk has no room for ends only a member whose log etcd would shorten nevertheless.
func TestSnapshotsThatAFullDiskHasNoRoomFor(t *testing.T) {
	entry := &zapcore.CheckedEntry{Entry: zapcore.Entry{Message: "failed to save snapshot"}}
	fields := []zapcore.Field{zap.Error(&fs.PathError{Op: "write", Path: filepath.Join(t.TempDir(), "1.snap"), Err: syscall.ENOSPC})}
	single := NewFatalErrors()
	single.KeepsSnapshots = true
	single.OnWrite(entry, fields)
	if err := single.First(); err != nil {
		t.Errorf("a single member: got %v", err)
	}
	several := NewFatalErrors()
	go several.OnWrite(entry, fields) // it never returns
	<-several.Happened.Done()
	if err := several.First(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a member of several: got %v", err)
	}
}

// A start of etcd that hangs ends at the limit, which grows with the data, and the error says
// how long etcd had.
func TestStartEndsAtItsLimit(t *testing.T) {
	dir := t.TempDir()
	wal := filepath.Join(dir, "member", "wal")
	if err := os.MkdirAll(wal, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(wal, "0.wal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(wal, "0.wal"), 480<<20); err != nil { // a sparse file
		t.Fatal(err)
	}
	for name, hangs := range map[string]bool{"etcd does not start": true, "etcd is never ready": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				start := func() (*embed.Etcd, error) {
					if hangs {
						<-release
					}
					return &embed.Etcd{Server: &etcdserver.EtcdServer{}}, nil
				}
				began := time.Now()
				_, err := startWithin(t.Context(), start, NewFatalErrors(), startLimit(dir), false)
				const want = "etcd did not become ready within 1m30s: "
				if waited := time.Since(began); waited != 90*time.Second || err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got %v after %v, want %q... after 1m30s", err, waited, want)
				}
			})
		})
	}
}
