// Package directory knows the data directory of a member of etcd, without starting it: which process uses it, to which
// cluster its data belongs, and whether etcd could work with it.
//
// The directory of a server has the directory of etcd itself in it ([Etcd]), and beside that the lock of the process
// ([Lock]), and what a restore has not finished ([Filling], [Filled]).
//
// The functions read files that may be damaged. etcd's own code for them may panic, so callers recover panics and set
// [runtime/debug.SetPanicOnFault], because a database is read through a memory map.
package directory

import (
	"fmt"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"
)

// The directories beside etcd's own while a restore fills it. A server does not start beside them, because it would
// take the missing data for a new directory.
const (
	Filling = "etcd.restoring" // not complete
	Filled  = "etcd.restored"  // complete: only its name is missing
)

// Replaying is a copy of a survivor's data, in which a recovery applies the rest of its log. The next start removes it.
const Replaying = "etcd.replaying"

// Etcd returns the data directory of etcd itself.
func Etcd(dir string) string { return filepath.Join(dir, "etcd") }

// CheckLayout refuses a data directory of etcd itself, and one in which a restore was interrupted.
func CheckLayout(dir string) error {
	if err := checkTree(dir); err != nil {
		return err
	}
	return checkInterrupted(dir)
}

// checkTree refuses a data directory of etcd itself.
func checkTree(dir string) error {
	own := Etcd(dir)
	if fileutil.Exist(datadir.ToMemberDir(dir)) && !fileutil.Exist(own) {
		return fmt.Errorf("%s is a data directory of etcd itself: move its contents to %s", dir, own)
	}
	return nil
}

// checkInterrupted refuses a data directory in which a restore was interrupted.
func checkInterrupted(dir string) error {
	for _, name := range []string{Filling, Filled} {
		path := filepath.Join(dir, name)
		if !fileutil.Exist(path) {
			continue
		}
		without := "remove " + path
		if name == Filled && !fileutil.Exist(Etcd(dir)) {
			without = fmt.Sprintf("rename the newest %s.before-* to %s and remove %s", Etcd(dir), Etcd(dir), path)
		}
		return fmt.Errorf("fanoutd restore or recover was interrupted: run it again, or %s to do without", without)
	}
	return nil
}
