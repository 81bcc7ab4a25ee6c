package output

import (
	"fmt"
	"io"
	"strings"
	"text/template"

	"k8s.io/client-go/util/jsonpath"

	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// The prefixes of formats with a template.
const (
	jsonPathPrefix   = "jsonpath="
	goTemplatePrefix = "go-template="
)

// executor prints a value with a template.
type executor interface {
	Execute(w io.Writer, data any) error
}

// IsTemplate reports whether a format prints with a template of the user.
func (f Format) IsTemplate() bool {
	return strings.HasPrefix(string(f), jsonPathPrefix) || strings.HasPrefix(string(f), goTemplatePrefix)
}

// template returns the template of a format, or nil if it has none.
func (f Format) template() (executor, error) {
	if text, ok := strings.CutPrefix(string(f), jsonPathPrefix); ok {
		path := jsonpath.New("jsonpath").AllowMissingKeys(true)
		if err := path.Parse(relaxed(text)); err != nil {
			return nil, fmt.Errorf("invalid JSONPath %q: %w", text, err)
		}
		return path, nil
	}
	if text, ok := strings.CutPrefix(string(f), goTemplatePrefix); ok {
		t, err := template.New("go-template").Funcs(template.FuncMap{"toJSON": toJSON}).Parse(text)
		if err != nil {
			return nil, fmt.Errorf("invalid template: %w", err)
		}
		return t, nil
	}
	return nil, nil
}

// relaxed adds the braces to a path without them, as kubectl does: .value.rps is {.value.rps}.
func relaxed(path string) string {
	if strings.Contains(path, "{") {
		return path
	}
	return "{." + strings.TrimPrefix(strings.TrimPrefix(path, "$"), ".") + "}"
}

func toJSON(v any) (string, error) {
	text, err := document.EncodeJSON(v, false)
	return strings.TrimRight(string(text), "\n"), err
}

// execute prints a value with the template of the format. The template sees what -o json shows.
func (p Printer) execute(v any) error {
	t, err := p.Format.template()
	if err != nil {
		return err
	}
	text, err := document.EncodeJSON(v, false)
	if err != nil {
		return err
	}
	data, err := document.Parse(text)
	if err != nil {
		return fmt.Errorf("decode for the template: %w", err)
	}
	if err := t.Execute(p.W, data); err != nil {
		return fmt.Errorf("the template failed: %w", err)
	}
	return nil
}
