package object

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// CheckLabels returns an error about a field of a request if a label breaks the rules of
// Kubernetes, which label selectors follow. A selector could not name such a label.
func CheckLabels(field string, labels map[string]string) *ContentError {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if err := checkLabel(field, name, labels[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkLabel(field, name, value string) *ContentError {
	if problems := content.IsLabelKey(name); len(problems) > 0 {
		return &ContentError{Field: field, Reason: fmt.Sprintf("has the label %.100q, which is invalid: %s", name, rule(problems))}
	}
	if problems := content.IsLabelValue(value); len(problems) > 0 {
		return &ContentError{Field: field, Reason: fmt.Sprintf("has the label %q with the value %.100q, which is invalid: %s", name, value, rule(problems))}
	}
	return nil
}

// rule returns the first rule that a label breaks, without the examples and the regular expression that follow:
// descriptions of fields have no room for them.
func rule(problems []string) string {
	text, _, _ := strings.Cut(problems[0], " (e.g. ")
	return text
}
