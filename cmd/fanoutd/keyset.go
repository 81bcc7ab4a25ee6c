package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client/localfile"
	"github.com/fanoutd/fanoutd/internal/crypt"
)

const keysetLong = `Manage the keyset file (--keyset-file), whose keys encrypt the values in etcd. All servers
of one etcd must have the same keys. Running servers reload the file when it changes.

To replace a key:

  1. fanoutd keyset add FILE         then copy the file to all servers
  2. fanoutd keyset promote FILE     then copy the file to all servers
  3. fanoutctl reencrypt RESOURCE    for each resource
  4. fanoutd keyset remove FILE ID   once neither etcd's history nor any backup that you may
                                     restore is older than step 3; see docs/tasks/encrypt.md

The file is an unencrypted Tink keyset in JSON: anyone who can read it can decrypt the
values. Keep a copy, but not with the backups of etcd.`

func keysetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keyset",
		Short: "Manage the keys that encrypt values in etcd",
		Long:  keysetLong,
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd keyset requires a command: create, add, promote, remove or show")}
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "create FILE",
			Short: "Create a keyset file with one new key",
			Args:  arguments(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				content, id, err := crypt.Create()
				if err == nil {
					err = createFile(args[0], content)
				}
				return printResult(cmd, err, "Created %s with key %d.\n", args[0], id)
			},
		},
		&cobra.Command{
			Use:   "add FILE",
			Short: "Add a new key; it does not encrypt until it is promoted",
			Args:  arguments(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				var id uint32
				err := changeFile(args[0], func(content []byte) (_ []byte, err error) {
					content, id, err = crypt.Add(content)
					return content, err
				})
				return printResult(cmd, err, "Added key %d. Promote it once all servers have the file.\n", id)
			},
		},
		&cobra.Command{
			Use:   "promote FILE [ID]",
			Short: "Make a key the primary key, by default the newest; the others still decrypt",
			Args:  arguments(cobra.RangeArgs(1, 2)),
			RunE: func(cmd *cobra.Command, args []string) error {
				id, err := keyID(args)
				if err != nil {
					return err
				}
				err = changeFile(args[0], func(content []byte) (_ []byte, err error) {
					content, id, err = crypt.Promote(content, id)
					return content, err
				})
				return printResult(cmd, err, "Key %d is the primary key now.\n", id)
			},
		},
		&cobra.Command{
			Use:   "remove FILE ID",
			Short: "Remove a key; values encrypted with it become unreadable",
			Args:  arguments(cobra.ExactArgs(2)),
			RunE: func(cmd *cobra.Command, args []string) error {
				id, err := keyID(args)
				if err != nil {
					return err
				}
				err = changeFile(args[0], func(content []byte) ([]byte, error) { return crypt.Remove(content, id) })
				return printResult(cmd, err, "Removed key %d.\n", id)
			},
		},
		&cobra.Command{
			Use:   "show FILE",
			Short: "List the keys without their secrets",
			Args:  arguments(cobra.ExactArgs(1)),
			RunE: func(cmd *cobra.Command, args []string) error {
				content, err := os.ReadFile(args[0])
				if err != nil {
					return fmt.Errorf("cannot read keyset: %w", err)
				}
				return showKeys(cmd, args[0], content)
			},
		},
	)
	return cmd
}

// keyID parses the key ID in the second argument. It returns 0 if there is none.
func keyID(args []string) (uint32, error) {
	if len(args) < 2 {
		return 0, nil
	}
	id, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil || id == 0 {
		return 0, usageError{fmt.Errorf("invalid key ID %q; run \"fanoutd keyset show\" to list the keys", args[1])}
	}
	return uint32(id), nil
}

func printResult(cmd *cobra.Command, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), format, args...)
	return err
}

func showKeys(cmd *cobra.Command, path string, content []byte) error {
	keys, err := crypt.Keys(content)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tUSE\tTYPE")
	for _, k := range keys {
		use := "decrypts"
		switch {
		case k.Primary:
			use = "encrypts and decrypts"
		case k.Status != "enabled":
			use = "-"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", k.ID, k.Status, use, k.Type)
	}
	return w.Flush()
}

// createFile writes a new file. It never overwrites a keyset, because all values encrypted with
// it would be lost.
func createFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("cannot create keyset: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("cannot write keyset: %w", err), os.Remove(path))
	}
	return nil
}

// changeFile atomically replaces the content of a file. It keeps the owner and the group, so
// that a server can still read the file through its group, and removes permissions of other
// users. A lock serializes concurrent calls.
func changeFile(path string, change func([]byte) ([]byte, error)) (err error) {
	path = localfile.Target(path)
	unlock, err := lockDirectory(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("cannot change keyset: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	content, err := localfile.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read keyset: %w", err)
	}
	if content, err = change(content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err = hide(path); err == nil {
		err = localfile.Replace(path, content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write keyset: %w", err)
	}
	return nil
}

// hide removes the permissions of other users.
func hide(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o007 == 0 {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()&0o770)
}
