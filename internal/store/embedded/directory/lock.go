package directory

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// Lock locks a data directory for this process, before it is read: what [Identify] finds then stays so until the start
// of etcd has taken the lock over. It refuses a data directory of etcd itself.
//
// etcd also locks its files, but a
// second process that opens them hangs until the first one ends. This lock fails at
// once and names the other process.
func Lock(dir string) (unlock func() error, err error) {
	if err := checkTree(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if !locked {
		holder := "another process"
		if pid, err := os.ReadFile(path); err == nil && len(pid) > 0 {
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return nil, fmt.Errorf("data directory %s is in use by %s; stop it or choose another directory", dir, holder)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		_ = lock.Unlock()
		return nil, fmt.Errorf("write the lock of data directory %s: %w", dir, err)
	}
	return lock.Unlock, nil
}
