package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"text/template"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/client/localfile"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
)

// TemplateFile is a file that is rendered from a template. The file is replaced atomically,
// only when its content changes, and keeps its permissions, owner and group.
type TemplateFile struct {
	Path string
	// Notify makes Render report a change until Notified is called, even by another
	// process.
	Notify   bool
	template *template.Template
}

// OpenTemplate parses the template of a file. It fails if the file cannot be replaced because it is a
// device, for example. The end of ctx ends a wait for the writer of a pipe.
func OpenTemplate(ctx context.Context, path, templatePath string) (*TemplateFile, error) {
	text, err := pipe.ReadFile(ctx, templatePath)
	if err != nil {
		return nil, fmt.Errorf("cannot read template: %w", err)
	}
	t, err := template.New(filepath.Base(templatePath)).Option("missingkey=error").Funcs(functions).Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("cannot parse template: %w", err)
	}
	if err := localfile.Check(path); err != nil {
		return nil, fmt.Errorf("cannot render: %w", err)
	}
	localfile.RemoveTemporaries(path)
	return &TemplateFile{Path: path, template: t}, nil
}

// newFileMode is the mode of a file that did not exist.
const newFileMode = 0o644

// Render updates the file. It reports whether the file has changed now, or in an earlier
// call without a call of Notified since. After an error the file is unchanged. The error is a
// [template.ExecError] unless a later call may succeed with the same data.
func (f *TemplateFile) Render(data templateData) (changed bool, err error) {
	var text bytes.Buffer
	if err := f.template.Execute(&text, data); err != nil {
		return false, fmt.Errorf("render %s: %w", f.Path, err)
	}
	old, err := localfile.ReadFile(f.Path)
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

// Notified ends the report of a change.
func (f *TemplateFile) Notified() error {
	if err := os.Remove(pendingPath(f.Path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("render: %w", err)
	}
	return nil
}

func (f *TemplateFile) replace(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(localfile.Target(f.Path)), 0o755); err != nil {
		return err
	}
	t, err := localfile.Begin(f.Path, newFileMode)
	if err != nil {
		return err
	}
	defer t.Discard()
	if _, err := t.Write(text); err != nil {
		return err
	}
	// Mark first: a crash in between must not leave a new file without its mark.
	if err := f.markPending(); err != nil {
		return err
	}
	return t.Commit()
}

// pendingSuffix is the suffix of ".NAME.pending", an empty file beside the rendered one. It
// marks a change that Notified has not confirmed. It is a file because a later process,
// which finds the rendered file unchanged, must still report the change.
const pendingSuffix = ".pending"

func pendingPath(path string) string {
	path = localfile.Target(path)
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+pendingSuffix)
}

func (f *TemplateFile) isPending() bool {
	_, err := os.Lstat(pendingPath(f.Path))
	return f.Notify && err == nil
}

func (f *TemplateFile) markPending() error {
	if !f.Notify {
		return nil
	}
	mark, err := os.OpenFile(pendingPath(f.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	} else if err != nil {
		return err
	}
	return mark.Close()
}

// templateData is the data of a template.
type templateData struct {
	Resource string
	Objects  []templateObject // sorted by key
}

func newTemplateData(resource string, objects []*client.Object) templateData {
	d := templateData{Resource: resource, Objects: make([]templateObject, len(objects))}
	for i, o := range objects {
		d.Objects[i] = templateObject{o}
	}
	return d
}

// templateObject is an object in a template. Besides its methods it has the fields of
// [client.Object]: Key, ContentType, Labels, CreateRevision, ModRevision and Version.
type templateObject struct{ *client.Object }

// Name returns the last segment of the key.
func (o templateObject) Name() string { return path.Base(o.Key) }

// Text returns the value as text.
func (o templateObject) Text() string { return string(o.Object.Value) }

// JSON parses the value as JSON.
func (o templateObject) JSON() (any, error) {
	v, err := fromJSON(string(o.Object.Value))
	if err != nil {
		return nil, fmt.Errorf("value of %q: %w", o.Key, err)
	}
	return v, nil
}

func fromJSON(text string) (any, error) {
	v, err := document.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	return v, nil
}
