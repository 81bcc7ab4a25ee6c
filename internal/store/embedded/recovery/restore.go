package recovery

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded"
	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"github.com/fanoutd/fanoutd/internal/store/embedded/process"
	"github.com/fanoutd/fanoutd/internal/store/etcdlog"
)

// revisionBump is how far a restore raises the revision, so that no client of etcd sees it go back. It must be
// more than the revisions between the backup and the failure: this is a month of 380 writes per second. Revisions stay
// exact in JSON numbers (2^53) for 9 million restores. fanoutd's own clients do not need it, because their
// positions have an epoch.
const revisionBump = 1_000_000_000

// Restored is a data directory that was filled.
type Restored struct {
	Dir      string // of etcd
	Cluster  uint64 // the id of the new cluster
	Keys     int    // in the snapshot
	Bytes    int64  // size of the database
	Snapshot object.Revision
	Revision object.Revision // with which the new cluster begins

	// AuthenticationOff means that etcd's authentication was on in the snapshot. An embedded etcd does not use it.
	AuthenticationOff bool

	Former string // where the data is that the directory had before; empty: it had none
}

// The names of data that was replaced.
const (
	beforeRestore  = "etcd.before-restore"
	beforeRecovery = "etcd.before-recovery"
)

// NotEmptyError means that a data directory that should be filled has data.
type NotEmptyError struct{ Dir string }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s has data: make sure that it is not needed, and move it away: mv %s %s.old", e.Dir, e.Dir, e.Dir)
}

// Restore makes a snapshot of etcd the data of a new cluster, whose only member is the one with this
// configuration. The data directory must be empty. If Restore is interrupted, no server starts in the directory before
// it has been called again.
func Restore(ctx context.Context, cfg embedded.Config, file string, log *slog.Logger) (Restored, error) {
	return newRestoration(cfg, log).restore(ctx, file, false)
}

// Replace is [Restore] for a directory that may have data, which it keeps beside the new data. It keeps also data that
// etcd cannot read.
func Replace(ctx context.Context, cfg embedded.Config, file string, log *slog.Logger) (Restored, error) {
	return newRestoration(cfg, log).restore(ctx, file, true)
}

// restoration fills the data directory of a member.
type restoration struct {
	cfg   embedded.Config
	fatal *process.FatalErrors
	slog  *slog.Logger
	log   *zap.Logger
}

func newRestoration(cfg embedded.Config, log *slog.Logger) *restoration {
	r := &restoration{cfg: cfg, fatal: process.NewFatalErrors(), slog: log}
	r.log = r.logger()
	return r
}

// restore fills the directory with a snapshot. Replace allows former data.
func (r *restoration) restore(ctx context.Context, file string, replace bool) (done Restored, err error) {
	unlock, err := r.lock()
	if err != nil {
		return Restored{}, err
	}
	err = r.during(func() error {
		empty := checkEmpty(directory.Etcd(r.cfg.Dir))
		if _, full := errors.AsType[*NotEmptyError](empty); empty != nil && (!full || !replace) {
			return empty
		}
		if err := checkHash(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := r.fill(ctx, file, true, &done); err != nil {
			return fmt.Errorf("restore %s: %w", file, err)
		}
		return r.putInPlace(&done, empty != nil, beforeRestore)
	})
	return done, errors.Join(err, unlock())
}

// putInPlace makes the new directory that of etcd. Former data gets a name that begins with this one.
func (r *restoration) putInPlace(done *Restored, former bool, name string) error {
	own := filepath.Base(directory.Etcd(r.cfg.Dir))
	if err := os.RemoveAll(r.path(directory.Filled)); err != nil { // of a call that was interrupted
		return err
	}
	if !former {
		return r.rename(directory.Filling, own)
	}
	// From the second step on, no server starts with a missing directory.
	if err := r.rename(directory.Filling, directory.Filled); err != nil {
		return err
	}
	done.Former = r.nextFormer(name)
	if err := r.rename(own, filepath.Base(done.Former)); err != nil {
		return err
	}
	return r.rename(directory.Filled, own)
}

// logger returns a logger for etcd, whose fatal errors end [restoration.during] instead of the process.
func (r *restoration) logger() *zap.Logger {
	return etcdlog.New(r.slog.With("component", "etcd"), new(atomic.Bool), zap.WithFatalHook(r.fatal), zap.WithPanicHook(r.fatal))
}

// lock locks the data directory, which no server may use meanwhile.
func (r *restoration) lock() (unlock func() error, err error) {
	if err := directory.CheckOwner(r.cfg.Dir); err != nil {
		return nil, err
	}
	return directory.Lock(r.cfg.Dir)
}

// during calls a function that reads databases through memory maps and calls etcd.
func (r *restoration) during(call func() error) error {
	return r.fatal.During(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the database is damaged: %v", p)
			}
		}()
		debug.SetPanicOnFault(true)
		return call()
	})
}

// fill fills the directory "filling" with the database of a file. Hashed means that etcd has appended a hash to it.
func (r *restoration) fill(ctx context.Context, file string, hashed bool, done *Restored) (err error) {
	state, err := directory.ReadDatabase(file)
	if err != nil {
		return err
	}
	if state.Applied == 0 {
		return errors.New("it is not a database of etcd")
	}
	if err := state.CheckOrigin(true); err != nil {
		return err
	}
	manager := snapshot.NewV3(r.log)
	status, err := manager.Status(file) // reads all of it, and checks its structure
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c, err := r.cfg.Etcd(r.log)
	if err != nil {
		return err
	}
	dir := r.path(directory.Filling)
	if err := os.RemoveAll(dir); err != nil { // of a call that was interrupted
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	var urls []string
	for _, u := range c.AdvertisePeerUrls {
		urls = append(urls, u.String())
	}
	err = manager.Restore(snapshot.RestoreConfig{
		SnapshotPath: file, Name: c.Name, OutputDataDir: dir, PeerURLs: urls,
		InitialCluster: c.InitialCluster, InitialClusterToken: c.InitialClusterToken, // a random one
		SkipHashCheck: !hashed, RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return err
	}
	authentication, err := r.adapt(datadir.ToBackendFileName(dir))
	if err != nil {
		return err
	}
	if err := syncTree(dir); err != nil {
		return err
	}
	names, err := directory.LogFiles(datadir.ToWALDir(dir))
	if err != nil {
		return err
	}
	metadata, err := directory.ReadMetadata(datadir.ToWALDir(dir), names[0])
	if err != nil {
		return err
	}
	*done = Restored{
		Dir: directory.Etcd(r.cfg.Dir), Cluster: metadata.GetClusterID(), Keys: status.TotalKey, Bytes: status.TotalSize,
		Snapshot: object.Revision(status.Revision), Revision: object.Revision(status.Revision + revisionBump),
		AuthenticationOff: authentication,
	}
	return ctx.Err()
}

// adapt removes what belongs to the former cluster rather than to its data: alarms of its members, and the
// authentication of etcd's own clients, which this process could not pass. It reports whether that was on.
func (r *restoration) adapt(path string) (authentication bool, err error) {
	b := backend.NewDefaultBackend(r.log, path)
	defer func() { err = errors.Join(err, b.Close()) }()
	alarms := schema.NewAlarmBackend(r.log, b)
	alarms.CreateAlarmBucket()
	all, err := alarms.GetAllAlarms()
	if err != nil {
		return false, err
	}
	for _, alarm := range all {
		alarms.MustDeleteAlarm(alarm)
	}
	auth := schema.NewAuthBackend(r.log, b)
	auth.CreateAuthBuckets()
	tx := auth.BatchTx()
	tx.Lock()
	defer tx.Unlock()
	if authentication = tx.UnsafeReadAuthEnabled(); authentication {
		tx.UnsafeSaveAuthEnabled(false)
	}
	return authentication, nil
}

func (r *restoration) path(name string) string { return filepath.Join(r.cfg.Dir, name) }

// rename renames a directory beside etcd's own.
func (r *restoration) rename(from, to string) error {
	if err := os.Remove(r.path(to)); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is empty
		return err
	}
	if err := os.Rename(r.path(from), r.path(to)); err != nil {
		return err
	}
	return syncFile(r.cfg.Dir)
}

// checkEmpty returns a [*NotEmptyError] if a directory has files.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return &NotEmptyError{dir}
	}
	return nil
}

// checkHash verifies the hash that etcd appends to a snapshot.
func checkHash(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const page = 512 // a database has a multiple of it
	size := info.Size() - sha256.Size
	if !info.Mode().IsRegular() || size <= 0 || size%page != 0 {
		return errors.New("it is not a whole snapshot of etcd, which ends with a hash: take one with fanoutctl cluster snapshot or etcdctl snapshot save")
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, size); err != nil {
		return err
	}
	want := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, want); err != nil {
		return err
	}
	if string(h.Sum(nil)) != string(want) {
		return errors.New("the snapshot is damaged: its hash is not that of its content")
	}
	return nil
}

// syncTree writes all files and directories to the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncFile(path)
	})
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
