// Package render keeps files up to date: each is what a template makes of the
// objects of a watch. So programs that know nothing of fanoutd have their
// configuration where they look for it.
//
// A file is replaced at once, so that nobody reads half of it, and only when what is
// in it changes. It keeps its permissions.
package render

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"

	"github.com/google/renameio/v2"

	"github.com/fanoutd/fanoutd/client"
)

// File is a file that is kept up to date.
type File struct {
	Path string
	// Tells is whether somebody is told of changes: then Render reports them until
	// Told is called.
	Tells    bool
	template *template.Template
}

// Open reads the template of a file.
func Open(path, templatePath string) (*File, error) {
	text, err := os.ReadFile(templatePath)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	t, err := template.New(filepath.Base(templatePath)).Option("missingkey=error").Funcs(functions).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	return &File{Path: path, template: t}, nil
}

// Data is what a template sees.
type Data struct {
	// Resource is the name of the resource.
	Resource string
	// Objects are in order of their keys.
	Objects []Object
}

// NewData shows objects to templates.
func NewData(resource string, objects []*client.Object) Data {
	d := Data{Resource: resource, Objects: make([]Object, len(objects))}
	for i, o := range objects {
		d.Objects[i] = Object{o}
	}
	return d
}

// newFile is the mode of a file that was not there.
const newFile = 0o644

// Render makes the file what the template says, and reports whether it has changed,
// or has before and nobody was told. After an error the file is as it was.
func (f *File) Render(data Data) (changed bool, err error) {
	var text bytes.Buffer
	if err := f.template.Execute(&text, data); err != nil {
		return false, fmt.Errorf("render %s: %w", f.Path, err)
	}
	old, err := os.ReadFile(f.Path)
	switch {
	case err == nil && bytes.Equal(old, text.Bytes()):
		return f.isMarked(), nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("render: %w", err)
	}
	if err := f.replace(text.Bytes()); err != nil {
		return false, fmt.Errorf("render %s: %w", f.Path, err)
	}
	return true, nil
}

// target returns what is replaced: not a symbolic link, but what it points to.
func target(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

func (f *File) replace(text []byte) error {
	path := target(f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// The temporary file is beside the other: renaming works only within a file
	// system.
	t, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(newFile), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer func() { _ = t.Cleanup() }()
	if _, err := t.Write(text); err != nil {
		return err
	}
	// Before the file, so that there is no moment in which it is new and unmarked.
	if err := f.mark(); err != nil {
		return err
	}
	return t.CloseAtomicallyReplace()
}
