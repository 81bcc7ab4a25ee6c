package document

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
)

// Source is a place to read documents from.
type Source struct {
	// Path is a file, a directory, or "-" for Stdin.
	Path  string
	Stdin io.Reader
	// Format is the format of Stdin and of files without a known extension.
	Format Format
	// Raw means that Path is a directory whose files are the values, and their paths the
	// keys.
	Raw bool
	// Hidden includes raw files and directories whose names begin with a dot. Otherwise
	// they are skipped, and Skipped is called for each of them; Skipped may be nil.
	Hidden  bool
	Skipped func(path string)
	// Lines makes [Document.Place] exact. It keeps the texts in memory.
	Lines bool
}

// Documents reads the documents. In a directory it reads the files with the extension .yaml,
// .yml, .json or .jsonl at any depth, or all files with Raw. Names that begin with a dot,
// such as .git, are skipped.
//
// The documents of a directory are the complete wanted state: an import with --prune deletes
// everything else. So Documents does not skip silently what may belong to it: a symbolic link
// to a directory, which is not followed, and a dangling link are errors. The end of ctx ends a wait
// for the writer of a pipe.
func (s Source) Documents(ctx context.Context) ([]Document, error) {
	if s.Path == "-" {
		text, err := pipe.ReadAll(ctx, s.Stdin)
		if err != nil {
			return nil, fmt.Errorf("cannot read standard input: %w", err)
		}
		return read("standard input", text, s.Format, s.Lines)
	}
	info, err := os.Stat(s.Path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return s.directory(ctx)
	case s.Raw:
		return nil, fmt.Errorf("%s is not a directory, as --raw requires", s.Path)
	}
	return s.file(ctx, s.Path)
}

// directory reads the documents of a directory.
func (s Source) directory(ctx context.Context) ([]Document, error) {
	var all []Document
	// With a trailing slash, WalkDir follows a link.
	root := s.Path + string(filepath.Separator)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// An export escapes a leading dot in a key, except in a raw export, whose names are
		// the keys.
		if path != root && strings.HasPrefix(entry.Name(), ".") && !(s.Raw && s.Hidden) {
			if s.Raw && s.Skipped != nil {
				s.Skipped(path)
			}
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if entry.IsDir() {
			return nil
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			if err := checkLink(path); err != nil {
				return err
			}
		}
		if !s.Raw && formatOf(path) == Auto {
			return nil
		}
		documents, err := s.file(ctx, path)
		all = append(all, documents...)
		return err
	})
	return all, err
}

// checkLink returns an error unless a symbolic link leads to a file.
func checkLink(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a symbolic link to a directory, which is not followed: replace or remove it", path)
	}
	return nil
}

// file reads the documents of a file, or with Raw its value.
func (s Source) file(ctx context.Context, path string) ([]Document, error) {
	text, err := pipe.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	if !s.Raw {
		return read(path, text, cmp.Or(formatOf(path), s.Format), s.Lines)
	}
	name, err := filepath.Rel(s.Path, path)
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(name) {
		return nil, fmt.Errorf("the name of %q is not valid UTF-8 and cannot be a key", path)
	}
	contentType, _ := TypeOf(path, text) // what only looks like JSON is text
	d := Document{Key: filepath.ToSlash(name), Content: NewContent(contentType, text), Where: path, place: path}
	if s.Lines && d.Text != nil {
		d.file = path
		d.line = func(pointer string) int { return 1 + lineInJSON(text, steps(pointer)) }
	}
	return []Document{d}, nil
}

// IsHidden reports whether a segment of a key begins with a dot. Raw files with such names
// are skipped.
func IsHidden(key string) bool { return strings.HasPrefix(key, ".") || strings.Contains(key, "/.") }

func formatOf(path string) Format {
	switch filepath.Ext(path) {
	case ".yaml", ".yml":
		return YAML
	case ".json", ".jsonl":
		return JSON
	}
	return Auto
}

// maxNameBytes is the maximum length of a file name without its extension. File systems
// allow 255 bytes.
const maxNameBytes = 200

// extension is the extension of exported files.
const extension = ".yaml"

// FileName returns the relative path, with slashes, of the exported file of a key. The paths
// of two keys differ, never leave the directory, and no file is in the place of a directory
// that another key needs. Problematic characters are escaped as %XX. Long names are cut and
// get a hash. An import ignores the path and uses the key inside of the document.
func FileName(key string) string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		s = escape(s)
		if !last && strings.HasSuffix(s, extension) {
			// The file of another key may have this name.
			s = strings.TrimSuffix(s, extension) + "%2Eyaml"
		}
		if len(s) > maxNameBytes {
			hash := sha256.Sum256([]byte(segments[i]))
			s = s[:maxNameBytes-40] + "%~" + hex.EncodeToString(hash[:16])
		}
		segments[i] = s
	}
	return strings.Join(segments, "/") + extension
}

// escape escapes characters that file systems reject, and a leading dot.
func escape(segment string) string {
	if segment == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(segment) {
		c := segment[i]
		switch {
		case c < ' ', c == 0x7f, c == '%', c == '\\', c == ':', c == '*', c == '?', c == '"', c == '<', c == '>', c == '|', c == '.' && i == 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
