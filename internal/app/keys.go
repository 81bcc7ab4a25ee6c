package app

import (
	"fmt"
	"os"

	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/reload"
)

// forOthers are the permissions of a file for those who are neither its owner nor of
// its group. Groups are left alone: Kubernetes gives mounted secrets to one.
const forOthers = 0o007

// openKeys reads the keyset, if there is one. Without keys there is a keyring all the
// same: it knows what is encrypted, and nobody is sent that.
func (a *App) openKeys() error {
	a.keys = crypt.NewKeyring(a.log)
	path := a.cfg.KeysetFile
	if path == "" {
		return nil
	}
	running := false
	f, err := reload.Load(path, a.log, func(content []byte) error {
		switch err := private(path); {
		case err != nil && !running:
			return err
		case err != nil:
			// Values may be encrypted with its keys already, so it is needed.
			a.log.Error("the keyset is not protected", "file", path, "error", err)
		}
		running = true
		return a.keys.Use(content)
	})
	if err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	a.files = append(a.files, f)
	return nil
}

// private returns an error if others can use a file.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at its permissions: %w", err)
	}
	if mode := info.Mode().Perm(); mode&forOthers != 0 {
		return fmt.Errorf("everybody on this machine can use it (its mode is %04o); make it 0600, or 0440 for a group", mode)
	}
	return nil
}
