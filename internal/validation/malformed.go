package validation

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// malformed is the error about a schema whose keywords have wrong values.
type malformed []wrongValue

// wrongValue is a wrong value in a schema.
type wrongValue struct {
	path   []string
	reason string // what is allowed, and what was given
}

// Error implements error.
func (w wrongValue) Error() string {
	return strings.TrimSpace(clip(pointerTo(w.path), maxPointerBytes) + " " + w.reason)
}

// Error implements error.
func (m malformed) Error() string {
	texts := make([]string, len(m))
	for i, one := range m {
		texts[i] = one.Error()
	}
	return strings.Join(texts, ", ")
}

// malformedOf returns what the metaschema says about a document, as one sentence for each wrong value.
func malformedOf(refused *jsonschema.SchemaValidationError, document any) error {
	e, ok := errors.AsType[*jsonschema.ValidationError](refused.Err)
	if !ok {
		return refused.Err
	}
	// Only a part of the document is checked if it is a schema where none is expected.
	var above []string
	if _, fragment, _ := strings.Cut(refused.URL, "#"); fragment != "" {
		pointer, err := url.PathUnescape(fragment)
		if err != nil {
			return err
		}
		above = pathOf(pointer)
		document, _ = lookup(document, pointer)
	}
	meta := &schema{}
	var all malformed
	for _, one := range meta.first(e, document) {
		path, reason := meta.explainKeyword(one, document)
		all = append(all, wrongValue{slices.Concat(above, path), reason})
	}
	if len(all) == 0 {
		return refused.Err
	}
	return all
}

// explainKeyword is like placed.explain for a value in a schema, where the reader knows the allowed forms.
func (s *schema) explainKeyword(p placed, document any) (path []string, reason string) {
	switch k := p.of.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		if best := s.best(p.of, document); len(best) > 0 {
			return s.explainKeyword(best[0], document)
		}
	case *kind.Format:
		given, _ := lookup(document, pointerTo(p.path))
		return p.path, clip(fmt.Sprintf("%s: %v", explain(k, given), k.Err), maxMessageBytes)
	case *kind.PropertyNames:
		for _, cause := range p.of.Causes {
			if format, ok := cause.ErrorKind.(*kind.Format); ok {
				return p.path, clip(fmt.Sprintf("has the member %q, whose name is not a valid %s: %v",
					clip(k.Property, maxGivenBytes), format.Want, format.Err), maxMessageBytes)
			}
		}
	}
	return p.path, p.explain()
}
