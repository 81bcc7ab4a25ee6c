package object

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

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
