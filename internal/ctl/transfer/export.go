package transfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Sink takes the objects of an export.
type Sink interface {
	// Add takes one object and reports whether that has changed anything.
	Add(o *client.Object) (changed bool, err error)
	// Close is called when all objects were added. Without it, a file stays as it
	// was.
	Close() error
	// Discard gives up what was not closed.
	Discard()
}

// Format is how documents are written one after the other.
type Format string

// The formats.
const (
	YAML  Format = "yaml"
	JSONL Format = "jsonl"
)

// Stream is a [Sink] that writes documents one after the other.
type Stream struct {
	w      *bufio.Writer
	format Format
	n      int
	close  func() error
	drop   func()
}

// NewStream writes to w.
func NewStream(w io.Writer, format Format) *Stream {
	s := &Stream{w: bufio.NewWriterSize(w, 1<<20), format: format, drop: func() {}}
	s.close = func() error { return nil }
	return s
}

// NewFile writes to a file, which is replaced at once when everything is in it.
func NewFile(path string, format Format) (*Stream, error) {
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644), renameio.WithExistingPermissions())
	if err != nil {
		return nil, err
	}
	s := NewStream(f, format)
	s.close, s.drop = f.CloseAtomicallyReplace, func() { _ = f.Cleanup() }
	return s, nil
}

// Add writes a document.
func (s *Stream) Add(o *client.Object) (bool, error) {
	d := document.Exact(o)
	s.n++
	if s.format == JSONL {
		text, err := d.JSON(false)
		if err == nil {
			_, err = s.w.Write(text)
		}
		return true, err
	}
	text, err := d.YAML()
	if err != nil {
		return false, err
	}
	if s.n > 1 {
		if _, err := s.w.WriteString("---\n"); err != nil {
			return false, err
		}
	}
	_, err = s.w.Write(text)
	return true, err
}

// Close writes what is left.
func (s *Stream) Close() error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	return s.close()
}

// Discard gives up.
func (s *Stream) Discard() { s.drop() }

// Directory is a [Sink] with a file for each object. Files that have what they
// should are left alone, so an export that was interrupted goes on where it was.
type Directory struct {
	root  *os.Root
	raw   bool
	scope Scope
	seen  map[string]bool // the files that belong there
	// Removed is how many files were pruned.
	Removed int
}

// OpenDirectory makes the directory if it is not there. With raw the files have the
// values alone, under the names of the keys. Where the scope says to prune, files that an
// export has made of keys in it, and that no object has any more, are removed in the
// end: so all objects in the scope have to be added.
func OpenDirectory(path string, raw bool, scope Scope) (*Directory, error) {
	if raw && scope.Prune {
		return nil, errors.New("files with raw values cannot be pruned: they look like any others")
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Directory{root: root, raw: raw, scope: scope, seen: map[string]bool{}}, nil
}

// Add writes a file.
func (d *Directory) Add(o *client.Object) (bool, error) {
	name, text := o.Key, o.Value
	if !d.raw {
		name = document.FileName(o.Key)
		doc := document.Exact(o)
		var err error
		if text, err = doc.YAML(); err != nil {
			return false, err
		}
	} else if !filepath.IsLocal(name) || path.Clean(name) != name {
		return false, fmt.Errorf("the key %q cannot be the name of a file: export it without --raw", o.Key)
	}
	d.seen[name] = true
	old, err := d.root.ReadFile(name)
	if err == nil && bytes.Equal(old, text) {
		return false, nil
	}
	if err := d.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return false, d.explain(o.Key, err)
	}
	// A file that is half written is found to be different the next time.
	if err := d.root.WriteFile(name, text, 0o644); err != nil {
		return false, d.explain(o.Key, err)
	}
	return true, nil
}

// explain says what a key that is also a path to others leads to.
func (d *Directory) explain(key string, err error) error {
	if d.raw {
		return fmt.Errorf("write the value of %q: %w; if another key has it as a path, export without --raw", key, err)
	}
	return fmt.Errorf("write the document of %q: %w", key, err)
}

// Close removes what is no longer there, if that is wanted.
func (d *Directory) Close() error {
	defer d.root.Close()
	if !d.scope.Prune {
		return nil
	}
	return fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || d.seen[name] || path.Ext(name) != ".yaml" {
			return err
		}
		if !d.made(name) {
			return nil
		}
		d.Removed++
		return d.root.Remove(name)
	})
}

// made reports whether a file was made by an export of the scope: it has one document,
// whose key is in the scope, and the name that this document gets.
func (d *Directory) made(name string) bool {
	f, err := d.root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	n, own := 0, false
	for doc, err := range document.Stream(name, f, document.YAML) {
		if err != nil {
			return false
		}
		n++
		own = document.FileName(doc.Key) == name && d.scope.has(doc.Key)
	}
	return n == 1 && own
}

// Discard closes the directory.
func (d *Directory) Discard() { d.root.Close() }

// Export adds all objects to a sink and closes it, and returns how many there were
// and how many of them changed something. Progress is told after each page of how
// many objects there are, as far as that is known, and how many of them are done.
func Export(ctx context.Context, r *client.Resource, sink Sink, progress func(done int, total int64), opts ...client.ListOption) (objects, changed int, err error) {
	defer sink.Discard()
	token := ""
	for {
		page, err := r.ListPage(ctx, append(opts[:len(opts):len(opts)], client.PageToken(token))...)
		if err != nil {
			return objects, changed, err
		}
		for _, o := range page.Objects {
			if o.Undecryptable() {
				// An import of the rest would look as if it were everything.
				return objects, changed, fmt.Errorf("the server cannot decrypt %q", o.Key)
			}
			is, err := sink.Add(o)
			if err != nil {
				return objects, changed, err
			}
			objects++
			if is {
				changed++
			}
			if objects%256 == 0 && ctx.Err() != nil {
				return objects, changed, context.Cause(ctx)
			}
		}
		total := int64(-1)
		if page.Remaining != nil {
			total = int64(objects) + *page.Remaining
		}
		progress(objects, total)
		if page.Next == "" {
			return objects, changed, sink.Close()
		}
		token = page.Next
	}
}
