// Package process runs etcd in a process that does not end when etcd wants it to.
//
// etcd ends the process, panics or waits for ever where it cannot go on. [FatalErrors] makes an error of that, [Start]
// has a limit, and [Close] ends a start that would never end. What etcd leaves behind then cannot be ended, so the process
// is expected to exit once its clients have their last messages.
package process

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
)

// startLimit returns how long the start of etcd may take. etcd reads its whole database and
// write-ahead log.
func startLimit(dir string) time.Duration {
	const slowDisk = 16 << 20 // bytes per second
	return time.Minute + time.Duration(directory.Bytes(dir)/slowDisk)*time.Second
}

// differentData is the end of etcd's error, which has no type.
const differentData = "found data inconsistency with peers"

// DifferentDataError means that etcd did not start because another member has other data at the same revision. etcd
// logs which one. Either may be wrong.
type DifferentDataError struct{ err error }

func (e *DifferentDataError) Error() string { return e.err.Error() }
func (e *DifferentDataError) Unwrap() error { return e.err }

// Start checks the data directory and starts etcd in it. It returns once etcd serves requests, at the latest after
// a limit that grows with the data. A member of several serves requests only once a majority has started, so for
// it, Start does not wait for that.
//
// If etcd fails in a way that it cannot report, or takes too long, its goroutines are left
// behind, because nothing can end them. The process is expected to exit.
func Start(ctx context.Context, cfg *embed.Config, fatal *FatalErrors, several bool) (*embed.Etcd, error) {
	start := func() (*embed.Etcd, error) {
		if err := directory.Check(cfg.Dir, several); err != nil {
			return nil, err
		}
		etcd, err := embed.StartEtcd(cfg)
		if err != nil && strings.HasSuffix(err.Error(), differentData) {
			err = &DifferentDataError{err}
		}
		return etcd, err
	}
	return startWithin(ctx, start, fatal, startLimit(cfg.Dir), several)
}

// startWithin calls start, which starts etcd without waiting until it serves requests.
func startWithin(ctx context.Context, start func() (*embed.Etcd, error), fatal *FatalErrors, limit time.Duration, several bool) (*embed.Etcd, error) {
	timeout := time.AfterFunc(limit, func() {
		fatal.Report(fmt.Errorf("etcd did not become ready within %v: its data may be damaged or belong to a cluster of several members", limit))
	})
	defer timeout.Stop()
	var etcd *embed.Etcd
	err := fatal.During(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = directory.Damaged("the database is damaged, restore a backup: %v", p)
			}
		}()
		// etcd reads its database through a memory map. Without this, a page beyond the
		// end of the file ends the process: TestDamagedDataDirectory.
		debug.SetPanicOnFault(true)
		if etcd, err = start(); err != nil || several {
			return err
		}
		select {
		case <-etcd.Server.ReadyNotify():
			return nil
		case err = <-etcd.Err():
		case <-etcd.Server.StopNotify():
			err = errors.New("etcd stopped before it was ready")
		case <-ctx.Done():
			err = ctx.Err()
		}
		Close(etcd)
		return err
	})
	if err != nil {
		return nil, err
	}
	return etcd, nil
}

// Close stops etcd. [embed.Etcd.Close] waits for goroutines that wait for the end of the start, which
// without a majority never comes: TestStopWithoutAMajority.
func Close(etcd *embed.Etcd) {
	select {
	case <-etcd.Server.ReadyNotify():
	default:
		etcd.Server.Stop()
	}
	etcd.Close()
}
