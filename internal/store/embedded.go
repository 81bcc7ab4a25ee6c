package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded"
	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"github.com/fanoutd/fanoutd/internal/store/embedded/process"
	"github.com/fanoutd/fanoutd/internal/store/embedded/recovery"
	"github.com/fanoutd/fanoutd/internal/store/epochs"
)

// EmbeddedConfig configures an etcd in this process. MaxTransactionOps is the number of operations
// of a write, of which etcd may need more. MaxRequestBytes is at least the default.
type EmbeddedConfig = embedded.Config

// These are what makes an embedded etcd a member of several.
type (
	Peers              = embedded.Peers
	TLSFiles           = embedded.TLSFiles
	DataGoneError      = embedded.DataGoneError
	DamagedError       = directory.DamagedError
	DifferentDataError = process.DifferentDataError
)

// Identify is [directory.Identify].
func Identify(dir string) (directory.Identity, error) { return directory.Identify(dir) }

// Lock is [directory.Lock].
func Lock(dir string) (unlock func() error, err error) { return directory.Lock(dir) }

// CheckOwner is [directory.CheckOwner].
func CheckOwner(dir string) error { return directory.CheckOwner(dir) }

// These are the result of [Restore], [Replace] and [Recover], and what [Inspect] reads.
type (
	Restored = recovery.Restored
	Survivor = recovery.Survivor
)

// Restore is [recovery.Restore].
func Restore(ctx context.Context, cfg EmbeddedConfig, file string, log *slog.Logger) (Restored, error) {
	return recovery.Restore(ctx, cfg, file, log)
}

// Replace is [recovery.Replace].
func Replace(ctx context.Context, cfg EmbeddedConfig, file string, log *slog.Logger) (Restored, error) {
	return recovery.Replace(ctx, cfg, file, log)
}

// Recover is [recovery.Recover].
func Recover(ctx context.Context, cfg EmbeddedConfig, log *slog.Logger) (Restored, error) {
	return recovery.Recover(ctx, cfg, log)
}

// Inspect is [recovery.Inspect].
func Inspect(cfg EmbeddedConfig, log *slog.Logger) (Survivor, error) {
	return recovery.Inspect(cfg, log)
}

// OpenEmbedded starts an etcd in this process and returns a store in it.
func OpenEmbedded(ctx context.Context, cfg EmbeddedConfig, log *slog.Logger) (*Store, error) {
	// Each write may need a read, see [transaction], and one of them may be nested. With a history, it
	// needs two more writes instead.
	cfg.MaxTransactionOps = 3*cmp.Or(cfg.MaxTransactionOps, defaultTransactionOps) + 1
	cfg.MaxRequestBytes = max(cfg.MaxRequestBytes, defaultRequestBytes)
	m, err := embedded.Start(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	s := &Store{
		member: m, client: m.Client, log: log, epochs: epochs.New(m.Client, &epochs.Connections{}, log),
		kv: m.KV, ranges: m.RangeStream, leases: newLeaseCollector(m.Client, log), grants: m.Leases,
		maxTransactionOps: cfg.MaxTransactionOps, maxRequestBytes: cfg.MaxRequestBytes, commitTimeout: callTimeout,
	}
	err = m.During(func() error {
		// A new etcd gets its epoch record now. Later writes then have predictable
		// revisions.
		_, err := s.epochs.Determine(ctx, "")
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("determine the epoch of embedded etcd: %w", err), s.Close(ctx))
	}
	s.leases.start()
	return s, nil
}

// Failed returns a channel that receives an error if an embedded etcd cannot go on. Requests then
// wait until their contexts end. The caller closes the store. The channel is nil for an external
// etcd.
func (s *Store) Failed() <-chan error {
	if s.member == nil {
		return nil
	}
	return s.member.Failed()
}

// Formed is [embedded.Member.Formed]. It is true for an external etcd.
func (s *Store) Formed() bool { return s.member == nil || s.member.Formed() }

// admit allows a write to an embedded etcd, or fails with [object.ErrNoSpace], see
// [embedded.Member.Admit].
func (s *Store) admit(puts int, bytes int64) error {
	if s.member == nil {
		return nil
	}
	return s.member.Admit(puts, bytes)
}

// HandOver is [embedded.Member.HandOver].
func (s *Store) HandOver() {
	if s.member != nil {
		s.member.HandOver()
	}
}

// Writes returns the counts of writes of a member of several. Those of any other etcd are zero.
func (s *Store) Writes() object.WriteCounts {
	if s.member == nil {
		return object.WriteCounts{}
	}
	return s.member.Writes()
}

// Database returns the database size of an embedded etcd. It returns false for an
// external etcd, which exports its own metrics.
func (s *Store) Database() (object.Database, bool) {
	if s.member == nil {
		return object.Database{}, false
	}
	return s.member.Database(), true
}

// ReclaimSpace is [embedded.Member.ReclaimSpace].
//
// Errors: [object.ErrNotEmbedded], [*object.SpaceError] if the disk has no room for the
// defragmentation, and [object.ErrUnavailable].
func (s *Store) ReclaimSpace(ctx context.Context, keepHistory bool) (object.Reclaimed, error) {
	if s.member == nil {
		return object.Reclaimed{}, object.ErrNotEmbedded
	}
	done, err := s.member.ReclaimSpace(ctx, keepHistory)
	return done, classify(ctx, err)
}
