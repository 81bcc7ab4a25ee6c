package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one fault of a policy file.
type Problem struct {
	File         string
	Line, Column int // from 1; 0: unknown
	Message      string
}

// String returns the problem as one line that begins with its place.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// Problems is the error of a policy file: all its faults, in the order of the file.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
