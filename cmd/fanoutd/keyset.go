package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"github.com/natefinch/atomic"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/internal/crypt"
)

const aboutKeyset = `Make and change the file with the keys that values are encrypted with in etcd
(--keyset-file). All servers over one etcd have the same keys. Servers follow the file
while they run. To replace a key:

  1. fanoutd keyset add FILE       and bring the file to all servers
  2. fanoutd keyset promote FILE   and bring the file to all servers
  3. fanoutctl reencrypt RESOURCE  for each resource
  4. fanoutd keyset remove FILE ID when etcd's history, and the backups that you would
                                   restore, begin behind that; see docs/security.md

The file is one of Tink, in JSON and in clear text: whoever can read it can read the
values. Keep a copy where the backups of etcd are not.`

func keysetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keyset",
		Short: "Make and change the keys that values are encrypted with",
		Long:  aboutKeyset,
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("fanoutd keyset needs a command: create, add, promote, remove or show")}
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "create FILE",
			Short: "Make a file with one new key",
			Args:  between(1, 1),
			RunE: func(cmd *cobra.Command, args []string) error {
				content, id, err := crypt.Create()
				if err == nil {
					err = createFile(args[0], content)
				}
				return say(cmd, err, "Created %s with key %d.\n", args[0], id)
			},
		},
		&cobra.Command{
			Use:   "add FILE",
			Short: "Add a new key, which is not used to encrypt until it is promoted",
			Args:  between(1, 1),
			RunE: func(cmd *cobra.Command, args []string) error {
				var id uint32
				err := changeFile(args[0], func(content []byte) (_ []byte, err error) {
					content, id, err = crypt.Add(content)
					return content, err
				})
				return say(cmd, err, "Added key %d. Promote it when all servers have the file.\n", id)
			},
		},
		&cobra.Command{
			Use:   "promote FILE [ID]",
			Short: "Have a key encrypt, by default the newest; the others still decrypt",
			Args:  between(1, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				id, err := keyID(args)
				if err != nil {
					return err
				}
				err = changeFile(args[0], func(content []byte) (_ []byte, err error) {
					content, id, err = crypt.Promote(content, id)
					return content, err
				})
				return say(cmd, err, "Key %d encrypts now.\n", id)
			},
		},
		&cobra.Command{
			Use:   "remove FILE ID",
			Short: "Remove a key; what is encrypted with it cannot be read any more",
			Args:  between(2, 2),
			RunE: func(cmd *cobra.Command, args []string) error {
				id, err := keyID(args)
				if err != nil {
					return err
				}
				err = changeFile(args[0], func(content []byte) ([]byte, error) { return crypt.Remove(content, id) })
				return say(cmd, err, "Removed key %d.\n", id)
			},
		},
		&cobra.Command{
			Use:   "show FILE",
			Short: "Show which keys there are, and nothing of what they are made of",
			Args:  between(1, 1),
			RunE: func(cmd *cobra.Command, args []string) error {
				content, err := os.ReadFile(args[0])
				if err != nil {
					return fmt.Errorf("read the keyset: %w", err)
				}
				return showKeys(cmd, args[0], content)
			},
		},
	)
	return cmd
}

// between is [cobra.RangeArgs] with an error that is a mistake in usage.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.RangeArgs(least, most)(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// keyID returns the id of a key from the second argument, or 0 if there is none.
func keyID(args []string) (uint32, error) {
	if len(args) < 2 {
		return 0, nil
	}
	id, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil || id == 0 {
		return 0, usageError{fmt.Errorf("%q is not the id of a key; fanoutd keyset show has them", args[1])}
	}
	return uint32(id), nil
}

func say(cmd *cobra.Command, err error, format string, args ...any) error {
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

// createFile writes a file that must not exist: a keyset that is overwritten takes all
// values with it.
func createFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the keyset: %w", err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the keyset: %w", err), os.Remove(path))
	}
	return nil
}

// changeFile replaces a file at once by what is made of it. It keeps its owner, its group
// and its permissions, but those that others have: a server that reads it as one of its
// group still has to. Those who do so at the same time do so one after the other.
func changeFile(path string, change func([]byte) ([]byte, error)) (err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("read the keyset: %w", err)
	}
	unlock, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("change the keyset: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the keyset: %w", err)
	}
	if content, err = change(content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err == nil {
		err = replaceFile(path, info, content)
	}
	if err != nil {
		return fmt.Errorf("write the keyset: %w", err)
	}
	return nil
}

func replaceFile(path string, replaced fs.FileInfo, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // for its owner only
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = keepOwner(f, replaced)
	}
	if err == nil {
		err = f.Chmod(replaced.Mode().Perm() & 0o770)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = atomic.ReplaceFile(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
