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

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/client/localfile"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
)

// Sink is the target of an export.
type Sink interface {
	// Add adds an object.
	Add(o *client.Object) error
	// Close commits the export after all objects have been added.
	Close() error
	// Discard releases resources. Before Close, it abandons the export.
	Discard()
}

// Stream is a [Sink] that writes documents to a stream or a file, as YAML or lines of JSON.
type Stream struct {
	output.List[*client.Object]
	w      *bufio.Writer
	finish func() error
	drop   func()
}

// NewStream returns a Stream that writes to w.
func NewStream(w io.Writer, format output.Format) *Stream {
	s := &Stream{w: bufio.NewWriterSize(w, 1<<20), finish: func() error { return nil }, drop: func() {}}
	s.Printer = output.Printer{W: s.w, Format: format}
	s.Document = func(o *client.Object) any { return document.Exact(o) }
	return s
}

// NewFile returns a Stream that replaces a file atomically on Close. If the path is not that of a
// regular file, but of a device or a named pipe, it writes to it. The end of ctx ends a wait for the
// reader of a pipe.
func NewFile(ctx context.Context, path string, format output.Format) (*Stream, error) {
	f, err := localfile.Begin(path, 0o644)
	if special, ok := errors.AsType[*localfile.NotRegularError](err); ok && !special.Mode.IsDir() {
		f, err := pipe.Create(ctx, path)
		if err != nil {
			return nil, err
		}
		s := NewStream(f, format)
		s.finish, s.drop = f.Close, func() { _ = f.Close() } // in vain after finish
		return s, nil
	} else if err != nil {
		return nil, err
	}
	s := NewStream(f, format)
	s.finish, s.drop = f.Commit, f.Discard
	return s, nil
}

// Close writes buffered documents.
func (s *Stream) Close() error {
	if err := s.w.Flush(); err != nil {
		return err
	}
	return s.finish()
}

// Discard removes the temporary file, if any, or closes the device.
func (s *Stream) Discard() { s.drop() }

// Directory is a [Sink] with one file per object. It writes only files that differ, so
// running an interrupted export again continues it.
type Directory struct {
	root  *os.Root
	raw   bool
	scope Scope
	seen  map[string]bool // the files of the added objects
	// Written and Removed are the numbers of changed and of pruned files.
	Written, Removed int
}

// OpenDirectory opens a directory and creates it if necessary. With raw, the files contain
// only the values, and the keys are the file names. With scope.Prune, Close removes the
// exported files in the scope whose objects were not added.
func OpenDirectory(path string, raw bool, scope Scope) (*Directory, error) {
	if raw && scope.Prune {
		return nil, errors.New("--prune cannot be combined with --raw: raw files cannot be distinguished from other files")
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

// Add writes the file of an object.
func (d *Directory) Add(o *client.Object) error {
	name, text := o.Key, o.Value
	if !d.raw {
		name = document.FileName(o.Key)
		doc := document.Exact(o)
		var err error
		if text, err = document.EncodeYAML(doc); err != nil {
			return err
		}
	} else if !filepath.IsLocal(name) || path.Clean(name) != name {
		return fmt.Errorf("key %q cannot be a file name: export without --raw", o.Key)
	}
	d.seen[name] = true
	// A device or a named pipe is neither read nor written.
	if info, err := d.root.Stat(name); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return d.writeError(o.Key, &localfile.NotRegularError{Path: name, Mode: info.Mode()})
	}
	old, err := d.root.ReadFile(name)
	if err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := d.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return d.writeError(o.Key, err)
	}
	// The next export replaces a file that is only half written.
	if err := d.root.WriteFile(name, text, 0o644); err != nil {
		return d.writeError(o.Key, err)
	}
	d.Written++
	return nil
}

// writeError adds advice for raw keys that are also the paths of other keys.
func (d *Directory) writeError(key string, err error) error {
	if d.raw {
		return fmt.Errorf("cannot write the value of %q: %w; if it is also the path of another key, export without --raw", key, err)
	}
	return fmt.Errorf("cannot write the document of %q: %w", key, err)
}

// Close prunes files.
func (d *Directory) Close() error {
	if !d.scope.Prune {
		return nil
	}
	return fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || d.seen[name] || path.Ext(name) != ".yaml" {
			return err
		}
		if !d.isExported(name) {
			return nil
		}
		d.Removed++
		return d.root.Remove(name)
	})
}

// isExported reports whether an export of the scope has written the file: it contains one
// document, whose key is in the scope and belongs to the file name.
func (d *Directory) isExported(name string) bool {
	if info, err := d.root.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false
	}
	text, err := d.root.ReadFile(name)
	if err != nil {
		return false
	}
	all, err := document.Read(name, text, document.YAML)
	return err == nil && len(all) == 1 && document.FileName(all[0].Key) == name && d.scope.contains(all[0].Key)
}

// Discard closes the directory.
func (d *Directory) Discard() { d.root.Close() }

// Exported is what an export has written.
type Exported struct {
	Objects int
	Opaque  int // objects whose values the server cannot decode: documents have no word for that
}

// Export adds all objects to a sink and closes it, values in their JSON form where they have one.
// It calls progress for each object. After an error, the result says what was added.
func Export(ctx context.Context, r *client.Resource, sink Sink, progress func(objects int), opts ...client.ListOption) (Exported, error) {
	defer sink.Discard()
	var done Exported
	for o, err := range r.JSONValues().List(ctx, opts...) {
		switch {
		case err != nil:
			return done, err
		case ctx.Err() != nil:
			return done, context.Cause(ctx)
		case o.Undecryptable():
			// An export without this object would look complete.
			return done, fmt.Errorf("the server cannot decrypt the value of %q", o.Key)
		}
		if err := sink.Add(o); err != nil {
			return done, err
		}
		done.Objects++
		if o.Opaque {
			done.Opaque++
		}
		progress(1)
	}
	return done, sink.Close()
}
