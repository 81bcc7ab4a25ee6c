package object

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// Field is a value inside objects that field selectors can match.
type Field struct {
	Name    string // name in field selectors
	Path    string // path of the value in a document or message: names separated by dots
	Indexed bool   // a selector for one value costs nothing when objects with other values change
}

// Schema locates the labels and fields in the values of a resource.
type Schema struct {
	// Labels is the path of the labels in documents and messages. The default is
	// metadata.labels; in messages only if that is a map<string, string>. The codec
	// "object" ignores it because it stores labels separately.
	Labels string

	Fields  []Field
	Message *MessageType // type of the values; only for the codec "protobuf"
}

// DefaultLabelsPath is the path of labels in Kubernetes objects.
const DefaultLabelsPath = "metadata.labels"

// pathPattern excludes the operators of the gjson path language, so that a path locates
// one value in one pass.
var pathPattern = regexp.MustCompile(`^[A-Za-z0-9_$-]+(\.[A-Za-z0-9_$-]+)*$`)

// CheckPath returns an error if path is not a valid path of a value.
func CheckPath(path string) error {
	if !pathPattern.MatchString(path) {
		return fmt.Errorf("%q must be names of letters, digits, _, $ and -, separated by dots", path)
	}
	return nil
}

// Names returns the names of the fields.
func (s Schema) Names() []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}

// Indexed returns the indexes of the indexed fields in [Object.Fields].
func (s Schema) Indexed() []int {
	var indexes []int
	for i, f := range s.Fields {
		if f.Indexed {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// documentFields returns the values of the fields in a JSON document. A field that is not
// a string, number or boolean counts as absent.
func (s Schema) documentFields(document []byte) []string {
	if len(s.Fields) == 0 {
		return nil
	}
	values := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		values[i], _ = scalar(gjson.GetBytes(document, f.Path))
	}
	return values
}

// documentLabels returns the labels in a JSON document: the members at the path of the
// labels whose values are strings, numbers or booleans.
func (s Schema) documentLabels(document []byte) map[string]string {
	var labels map[string]string
	gjson.GetBytes(document, s.labelsPath()).ForEach(func(name, value gjson.Result) bool {
		if name.Type != gjson.String { // an array
			return false
		}
		if labels == nil {
			labels = map[string]string{}
		}
		if text, ok := scalar(value); ok {
			labels[strings.ToValidUTF8(name.Str, "\uFFFD")] = text
		}
		return true
	})
	return labels
}

func (s Schema) labelsPath() string { return cmp.Or(s.Labels, DefaultLabelsPath) }

// scalar returns a string, number or boolean as text.
func scalar(r gjson.Result) (string, bool) {
	switch r.Type {
	case gjson.String:
		// An escape sequence can encode half a surrogate pair, which is not valid text.
		return strings.ToValidUTF8(r.Str, "\uFFFD"), true
	case gjson.Number, gjson.True, gjson.False:
		return r.Raw, true
	}
	return "", false
}

// A JSON object may have two members with the same name. Selectors use the first, but most
// JSON libraries use the last. Therefore writes must not repeat a name on the path to a
// field or to labels.

// checkFields returns an error if a document repeats a name on the path to a field.
func (s Schema) checkFields(document []byte) *ContentError {
	root := gjson.ParseBytes(document)
	for _, f := range s.Fields {
		if _, name := follow(root, f.Path); name != "" {
			return repeatedError(name)
		}
	}
	return nil
}

// checkLabels returns an error if a document repeats a name on the path to the labels, or a
// label, or has an invalid label.
func (s Schema) checkLabels(document []byte) *ContentError {
	labels, name := follow(gjson.ParseBytes(document), s.labelsPath())
	seen := map[string]bool{}
	labels.ForEach(func(member, _ gjson.Result) bool {
		if member.Type == gjson.String && seen[member.Str] {
			name = member.Str
		}
		seen[member.Str] = true
		return name == ""
	})
	if name != "" {
		return repeatedError(name)
	}
	return CheckLabels("value", s.documentLabels(document))
}

func repeatedError(name string) *ContentError {
	return &ContentError{Field: "value", Reason: fmt.Sprintf("has the member %q more than once, but selectors depend on it", name)}
}

// follow returns the value at a path, or the first repeated name on the path.
func follow(document gjson.Result, path string) (found gjson.Result, repeated string) {
	for name := range strings.SplitSeq(path, ".") {
		times := 0
		document.ForEach(func(member, _ gjson.Result) bool {
			if member.Type == gjson.String && member.Str == name {
				times++
			}
			return times < 2
		})
		if times > 1 {
			return gjson.Result{}, name
		}
		document = document.Get(name)
	}
	return document, ""
}
