package object

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
)

// Field is a value inside of objects by which they can be selected.
type Field struct {
	Name    string // in field selectors
	Path    string // of the value in a document or message: names with dots between them
	Indexed bool   // what selects by one value of it costs nothing for changes of others
}

// Schema says where in the values of a resource its labels and fields are.
type Schema struct {
	// Labels is the path of the labels in documents and messages. Default:
	// metadata.labels; in messages only where that is a map<string, string>. It has no
	// meaning to codecs that store labels.
	Labels string

	Fields  []Field
	Message *MessageType // of the values, for the codec "protobuf" alone
}

// DefaultLabelsPath is where Kubernetes has them.
const DefaultLabelsPath = "metadata.labels"

// pathPattern leaves out everything that has a meaning of its own in the path
// language of the library: a path names one value and costs one walk.
var pathPattern = regexp.MustCompile(`^[A-Za-z0-9_$-]+(\.[A-Za-z0-9_$-]+)*$`)

// CheckPath returns an error that says why path cannot be that of a value.
func CheckPath(path string) error {
	if !pathPattern.MatchString(path) {
		return fmt.Errorf("%q must be names of letters, digits, _, $ and - with dots between them", path)
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

// Indexed returns the places of the indexed fields in [Object.Fields].
func (s Schema) Indexed() []int {
	var places []int
	for i, f := range s.Fields {
		if f.Indexed {
			places = append(places, i)
		}
	}
	return places
}

// documentFields returns the values of the fields in a JSON document. Texts,
// numbers and booleans have a value; everything else counts as absent.
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

// documentLabels returns the labels in a JSON document: the members of an object
// whose values are texts, numbers or booleans.
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

// scalar returns a text, a number or a boolean as text.
func scalar(r gjson.Result) (string, bool) {
	switch r.Type {
	case gjson.String:
		// A document can spell halves of characters, which are no text.
		return strings.ToValidUTF8(r.Str, "\uFFFD"), true
	case gjson.Number, gjson.True, gjson.False:
		return r.Raw, true
	}
	return "", false
}

// A document may have two members of the same name. Objects are selected by the first of
// them, while most who read the document see the last. So nobody can write such a
// document where it matters: on the way to a field or to labels.

// checkFields returns what is wrong with a document that repeats a member on the way to
// a field, or nil.
func (s Schema) checkFields(document []byte) *ContentError {
	root := gjson.ParseBytes(document)
	for _, f := range s.Fields {
		if _, name := follow(root, f.Path); name != "" {
			return repeatedError(name)
		}
	}
	return nil
}

// checkLabels returns the same of one that repeats a member on the way to labels, or a
// label.
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
	return nil
}

func repeatedError(name string) *ContentError {
	return &ContentError{Field: "value", Reason: fmt.Sprintf("has the member %q more than once, and objects are selected by it", name)}
}

// follow returns what a path leads to, or the first name on it that is repeated.
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
