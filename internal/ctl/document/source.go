package document

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Source says where documents come from.
type Source struct {
	// Path is a file, a directory, or "-" for Stdin.
	Path  string
	Stdin io.Reader
	// Format of files whose names do not say it, and of Stdin. Default: found out.
	Format Format
	// Raw: Path is a directory whose files are the values themselves. Their paths
	// are the keys.
	Raw bool
	// Hidden takes files with Raw whose names begin with a dot, and those in directories
	// of such names. LeftOut is told the names that are left out without it; may be nil.
	Hidden  bool
	LeftOut func(path string)
}

// Documents reads the source. In a directory these are the files whose names end
// with .yaml, .yml, .json or .jsonl, at any depth; with Raw all files. Names that begin
// with a dot are left out: they are of tools, such as .git.
//
// What is in a directory counts as all there is, and what is not there may be
// deleted. So nothing that may belong there is passed over in silence: a link to a
// directory, which is not followed, is an error, and so is one to nowhere.
func (s Source) Documents() iter.Seq2[Located, error] {
	return func(yield func(Located, error) bool) {
		if s.Path == "-" {
			for d, err := range Stream("standard input", s.Stdin, s.Format) {
				if !yield(d, err) {
					return
				}
			}
			return
		}
		info, err := os.Stat(s.Path)
		switch {
		case err != nil:
			yield(Located{}, err)
		case !info.IsDir() && s.Raw:
			yield(Located{}, fmt.Errorf("%s is not a directory, which raw values need", s.Path))
		case !info.IsDir():
			s.file(s.Path, yield)
		default:
			s.directory(yield)
		}
	}
}

// directory reports whether to go on.
func (s Source) directory(yield func(Located, error) bool) {
	stop := false
	// With the slash, a link is what it leads to.
	root := s.Path + string(filepath.Separator)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// An export writes the dot that a key begins with differently, but not a raw
		// one, where names are keys.
		if path != root && strings.HasPrefix(entry.Name(), ".") && !(s.Raw && s.Hidden) {
			if s.Raw && s.LeftOut != nil {
				s.LeftOut(path)
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
			if err := leadsToFile(path); err != nil {
				return err
			}
		}
		if s.Raw {
			stop = !s.value(path, yield)
		} else if formatOf(path) != Auto {
			stop = !s.file(path, yield)
		}
		if stop {
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil && !stop {
		yield(Located{}, err)
	}
}

// leadsToFile says what is wrong with a link.
func leadsToFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a link to a directory, and these are not followed: replace it, or take it away", path)
	}
	return nil
}

func (s Source) file(path string, yield func(Located, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yield(Located{}, err)
	}
	defer f.Close()
	format := formatOf(path)
	if format == Auto {
		format = s.Format
	}
	for d, err := range Stream(path, f, format) {
		if !yield(d, err) || err != nil {
			return false
		}
	}
	return true
}

// value reads a file that is a value.
func (s Source) value(path string, yield func(Located, error) bool) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return yield(Located{}, err)
	}
	name, err := filepath.Rel(s.Path, path)
	if err != nil {
		return yield(Located{}, err)
	}
	if !utf8.ValidString(name) {
		return yield(Located{}, fmt.Errorf("the name of %q is not UTF-8, which a key has to be", path))
	}
	d := Document{Key: filepath.ToSlash(name), ContentType: TypeOf(path, data)}
	if utf8.Valid(data) {
		text := string(data)
		d.Text = &text
	} else {
		d.Data = data
	}
	return yield(Located{d, path}, nil)
}

// IsHidden reports whether a part of a key begins with a dot: as the name of a file, it
// is left out.
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

// longest is how long a name in a directory may be, with room for the ending.
// File systems take 255 bytes.
const longest = 200

// ending is that of the files of a directory.
const ending = ".yaml"

// FileName returns the path, relative to a directory and with slashes, of the file
// that holds the document of a key. Two keys never have the same path, none leads
// out of the directory, and no file stands where another needs a directory. What
// names of files should not have is written as %XX; what is too long is cut, and
// made unique by a hash. The key inside of the document is the one that counts.
func FileName(key string) string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		s = escape(s)
		if !last && strings.HasSuffix(s, ending) {
			// The file of another key may have this name.
			s = strings.TrimSuffix(s, ending) + "%2Eyaml"
		}
		if len(s) > longest {
			hash := sha256.Sum256([]byte(segments[i]))
			s = s[:longest-40] + "%~" + hex.EncodeToString(hash[:16])
		}
		segments[i] = s
	}
	return strings.Join(segments, "/") + ending
}

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
