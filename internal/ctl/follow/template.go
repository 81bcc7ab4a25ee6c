// Package render keeps files up to date: each is what a template makes of the
// objects of a watch. So programs that know nothing of fanoutd have their
// configuration where they look for it.
//
// A file is replaced at once, so that nobody reads half of it, and only when what is
// in it changes. It keeps its permissions.
package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"text/template"

	"github.com/google/renameio/v2"

	"github.com/fanoutd/fanoutd/client"
)

// TemplateFile is a file that is kept up to date.
type TemplateFile struct {
	Path string
	// Notifies is whether somebody is told of changes: then Render reports them until
	// Told is called.
	Notifies bool
	template *template.Template
}

// Open reads the template of a file.
func OpenTemplate(path, templatePath string) (*TemplateFile, error) {
	text, err := os.ReadFile(templatePath)
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	t, err := template.New(filepath.Base(templatePath)).Option("missingkey=error").Funcs(functions).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("read the template: %w", err)
	}
	return &TemplateFile{Path: path, template: t}, nil
}

// templateData is what a template sees.
type templateData struct {
	// Resource is the name of the resource.
	Resource string
	// Objects are in order of their keys.
	Objects []templateObject
}

// newTemplateData shows objects to templates.
func newTemplateData(resource string, objects []*client.Object) templateData {
	d := templateData{Resource: resource, Objects: make([]templateObject, len(objects))}
	for i, o := range objects {
		d.Objects[i] = templateObject{o}
	}
	return d
}

// newFile is the mode of a file that was not there.
const newFile = 0o644

// Render makes the file what the template says, and reports whether it has changed,
// or has before and nobody was told. After an error the file is as it was.
func (f *TemplateFile) Render(data templateData) (changed bool, err error) {
	var text bytes.Buffer
	if err := f.template.Execute(&text, data); err != nil {
		return false, fmt.Errorf("render %s: %w", f.Path, err)
	}
	old, err := os.ReadFile(f.Path)
	switch {
	case err == nil && bytes.Equal(old, text.Bytes()):
		return f.isPending(), nil
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

func (f *TemplateFile) replace(text []byte) error {
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
	if err := f.markPending(); err != nil {
		return err
	}
	return t.CloseAtomicallyReplace()
}

// pendingSuffix ends the name of a mark: an empty file beside the file, ".NAME" and this.
// It says that the file was replaced and that those who read it have yet to be told.
// It outlives the process: otherwise nobody would ever be told of a file that is found
// unchanged after a restart.
const pendingSuffix = ".pending"

func pendingPath(path string) string {
	path = target(path)
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+pendingSuffix)
}

// isPending reports whether somebody has yet to be told of the file.
func (f *TemplateFile) isPending() bool {
	_, err := os.Lstat(pendingPath(f.Path))
	return f.Notifies && err == nil
}

func (f *TemplateFile) markPending() error {
	if !f.Notifies {
		return nil
	}
	return os.WriteFile(pendingPath(f.Path), nil, newFile)
}

// Told says that those who read the file were told of what is in it.
func (f *TemplateFile) Notified() error {
	if err := os.Remove(pendingPath(f.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("render: %w", err)
	}
	return nil
}

// Object is an object as templates see it, with the members of [client.Object]:
// Key, ContentType, Labels, CreateRevision, ModRevision and Version.
type templateObject struct{ *client.Object }

// Name is the last part of the key.
func (o templateObject) Name() string { return path.Base(o.Key) }

// Text is the value as text.
func (o templateObject) Text() string { return string(o.Object.Value) }

// JSON is the value as JSON: texts, numbers, booleans, lists and maps.
func (o templateObject) JSON() (any, error) {
	v, err := fromJSON(string(o.Object.Value))
	if err != nil {
		return nil, fmt.Errorf("the value of %q: %w", o.Key, err)
	}
	return v, nil
}

func fromJSON(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	return number(v), nil
}

// number makes whole numbers of those that are, so that they are not shown as
// 1e+06.
func number(v any) any {
	const exact = 1 << 53
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) && v < exact && v > -exact {
			return int64(v)
		}
		return v
	case map[string]any:
		for k, child := range v {
			v[k] = number(child)
		}
		return v
	case []any:
		for i, child := range v {
			v[i] = number(child)
		}
		return v
	default:
		return v
	}
}
