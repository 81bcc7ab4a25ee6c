package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/store/embedded"
	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"github.com/fanoutd/fanoutd/internal/store/embedded/process"
)

// Inspect reads the data of a stopped member of several, and changes nothing. It fails if the member runs.
func Inspect(cfg embedded.Config, log *slog.Logger) (s Survivor, err error) {
	r := newRestoration(cfg, log)
	if err := r.checkData(); err != nil {
		return s, err
	}
	unlock, err := r.lock()
	if err != nil {
		return s, err
	}
	err = r.during(func() (err error) {
		s, _, err = r.survivor()
		return err
	})
	return s, errors.Join(err, unlock())
}

// Recover makes the data of a member of several, which is stopped and whose cluster has no majority any more, the
// data of a new cluster with this one member. The member's own files are not changed: Recover fills a new directory,
// and renames the old one. If it is interrupted, the server starts with the old data or not at all, until Recover has been called again.
//
// Everything that the member has written to its log becomes part of the data, whether or not the member knew
// that a majority has it: the others may have acknowledged it.
func Recover(ctx context.Context, cfg embedded.Config, log *slog.Logger) (Restored, error) {
	r := newRestoration(cfg, log)
	if err := r.checkData(); err != nil && !fileutil.Exist(r.path(directory.Filled)) {
		return Restored{}, err
	}
	unlock, err := r.lock()
	if err != nil {
		return Restored{}, err
	}
	var done Restored
	err = r.during(func() error {
		own := directory.Etcd(cfg.Dir)
		if !fileutil.Exist(own) && fileutil.Exist(r.path(directory.Filled)) {
			// An earlier call was interrupted between the last two steps.
			done = r.describe()
			return r.rename(directory.Filled, filepath.Base(own))
		}
		_, j, err := r.survivor()
		if err != nil {
			return err
		}
		work := r.path(directory.Replaying)
		if err := os.RemoveAll(work); err != nil {
			return err
		}
		err = r.replay(ctx, work, j)
		if err == nil {
			err = r.fill(ctx, datadir.ToBackendFileName(work), false, &done)
		}
		if err := errors.Join(err, os.RemoveAll(work)); err != nil {
			return err
		}
		return r.putInPlace(&done, true, beforeRecovery)
	})
	return done, errors.Join(err, unlock())
}

// checkData returns an error if the directory has no data.
func (r *restoration) checkData() error {
	if own := directory.Etcd(r.cfg.Dir); !wal.Exist(datadir.ToWALDir(own)) {
		return fmt.Errorf("%s has no data: run this command on a server that has some, or fanoutd restore", own)
	}
	return nil
}

// survivor checks and reads the member's data.
func (r *restoration) survivor() (Survivor, journal, error) {
	own := directory.Etcd(r.cfg.Dir)
	if err := directory.Check(own, true); err != nil {
		return Survivor{}, journal{}, err
	}
	s, j, err := readSurvivor(own, r.log)
	if err != nil {
		return s, j, err
	}
	identity, err := directory.ReadIdentity(own)
	if err != nil {
		return s, j, err
	}
	s.Identity = identity
	if len(s.Members) == 1 {
		return s, j, fmt.Errorf("%s belongs to the only member of its cluster, which needs no others: start the server", own)
	}
	return s, j, nil
}

// replay applies the rest of a survivor's log to a copy of its database, with etcd itself: it starts as the only member of
// a cluster, without a network, on a log that has these entries after a snapshot of the database.
//
// etcd's force-new-cluster would do the same with less, but it drops entries of which this member did not know
// that they are committed, and begins with the addresses of the other members.
func (r *restoration) replay(ctx context.Context, dir string, j journal) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(datadir.ToSnapDir(dir), 0o700); err != nil {
		return err
	}
	if err := copyFile(datadir.ToBackendFileName(dir), j.database); err != nil {
		return err
	}
	if err := r.isolate(dir, j); err != nil {
		return err
	}
	if len(j.entries) == 0 {
		return nil
	}
	c, err := embedded.Config{Dir: r.cfg.Dir, QuotaBytes: r.cfg.QuotaBytes, UnsafeNoFsync: true}.Etcd(r.log) // it is a copy
	if err != nil {
		return err
	}
	c.Dir, c.AutoCompactionRetention = dir, "0"
	etcd, err := process.Start(ctx, c, r.fatal, false)
	if err != nil {
		return fmt.Errorf("apply the log: %w", err)
	}
	process.Close(etcd) // it became ready with an entry of its own, after all of these
	state, err := directory.ReadDatabase(datadir.ToBackendFileName(dir))
	if err == nil && state.Applied < j.last {
		err = fmt.Errorf("etcd has applied entry %d of %d", state.Applied, j.last)
	}
	return err
}

// isolate makes a copy of a survivor's database that of a cluster's only member, and writes a log with the rest of
// the survivor's entries for it.
func (r *restoration) isolate(dir string, j journal) (err error) {
	urls, err := types.NewURLsMap(directory.SingleName + "=http://localhost:2380") // nothing listens
	if err != nil {
		return err
	}
	cluster, err := membership.NewClusterFromURLsMap(r.log, "recovery", urls)
	if err != nil {
		return err
	}
	b := backend.NewDefaultBackend(r.log, datadir.ToBackendFileName(dir))
	defer func() { err = errors.Join(err, b.Close()) }()
	members := schema.NewMembershipBackend(r.log, b)
	if err := members.TrimMembershipFromBackend(); err != nil {
		return err
	}
	own := cluster.Members()[0]
	cluster.SetBackend(members)
	cluster.AddMember(own, membership.ApplyBoth)

	metadata, err := proto.Marshal(&etcdserverpb.Metadata{NodeID: new(uint64(own.ID)), ClusterID: new(uint64(cluster.ID()))})
	if err != nil {
		return err
	}
	w, err := wal.Create(r.log, datadir.ToWALDir(dir), metadata)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	w.SetUnsafeNoFsync()
	for _, e := range j.entries {
		if err := dropMembership(e); err != nil {
			return fmt.Errorf("entry %d: %w", e.GetIndex(), err)
		}
	}
	state := &raftpb.HardState{
		Term: new(max(j.state.GetTerm(), j.term)), Vote: new(uint64(own.ID)), Commit: new(max(j.last, j.applied)),
	}
	if err := w.Save(state, j.entries); err != nil {
		return err
	}
	return w.SaveSnapshot(&walpb.Snapshot{Index: new(j.applied), Term: new(cmp.Or(j.since, 1)), ConfState: &raftpb.ConfState{Voters: []uint64{uint64(own.ID)}}})
}

// dropMembership makes an entry without effect if it is about the members of the former cluster.
func dropMembership(e *raftpb.Entry) error {
	switch e.GetType() {
	case raftpb.EntryNormal:
		var request etcdserverpb.InternalRaftRequest
		if err := proto.Unmarshal(e.Data, &request); err != nil {
			return err
		}
		if request.ClusterMemberAttrSet != nil {
			e.Data = nil
		}
	default:
		e.Type, e.Data = raftpb.EntryNormal.Enum(), nil
	}
	return nil
}

// copyFile copies a file. It need not survive a crash of the machine.
func copyFile(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// nextFormer returns a free path for data that is replaced.
func (r *restoration) nextFormer(name string) string {
	path := r.path(name)
	for i := 2; fileutil.Exist(path); i++ {
		path = r.path(name + "-" + strconv.Itoa(i))
	}
	return path
}

// lastFormer returns the path of the survivor's data that was renamed last.
func (r *restoration) lastFormer() string {
	last := r.path(beforeRecovery)
	for i := 2; ; i++ {
		path := r.path(beforeRecovery + "-" + strconv.Itoa(i))
		if !fileutil.Exist(path) {
			return last
		}
		last = path
	}
}

// describe describes the directory "filled" of a call that was interrupted, as far as it shows that.
func (r *restoration) describe() Restored {
	done := Restored{Dir: directory.Etcd(r.cfg.Dir)}
	if last := r.lastFormer(); fileutil.Exist(last) {
		done.Former = last
	}
	if identity, err := directory.ReadIdentity(r.path(directory.Filled)); err == nil {
		done.Cluster = identity.Cluster
	}
	done.Revision, _ = lastRevision(datadir.ToBackendFileName(r.path(directory.Filled))) // it is only printed
	return done
}
