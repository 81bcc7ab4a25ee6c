package yamlfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Problem is a fault of a file or another input.
type Problem struct {
	Origin       string // file, flag or variable; empty if unknown
	Line, Column int    // in the file, from 1; 0 if unknown
	Key          string // path in the file, such as resources[1].codec; empty if the place is enough
	Message      string
}

// At returns a problem at a node.
func At(n *yaml.Node, format string, args ...any) Problem {
	return Problem{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)}
}

// Error returns the problem on one line: place, key and message.
func (p Problem) Error() string {
	origin := p.Origin
	if p.Line > 0 {
		origin = fmt.Sprintf("%s:%d:%d", origin, p.Line, p.Column)
	}
	parts := []string{origin, p.Key, p.Message}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// Problems is an error that contains all problems of an input.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems for errors.As.
func (ps Problems) Unwrap() []error {
	all := make([]error, len(ps))
	for i, p := range ps {
		all[i] = p
	}
	return all
}

// advice replaces or completes messages of the parser.
var advice = map[string]string{
	"did not find expected ',' or ']'":                      "',' or ']' is missing",
	"did not find expected ',' or '}'":                      "',' or '}' is missing",
	"did not find expected key":                             "want a key here; check the indentation",
	"did not find expected '-' indicator":                   "want '-' here; check the indentation",
	"did not find expected node content":                    "want a value or a closing bracket here",
	"did not find expected alphabetic or numeric character": `want a name here; quote values that begin with "*" or "&"`,
	"mapping values are not allowed in this context":        "unexpected ':'; check the indentation, or quote the value",
	"found character that cannot start any token":           "a value cannot begin with this character; quote it, and indent with spaces instead of tabs",
	"found unexpected end of stream":                        "the closing quote is missing",
}

// Explain returns the [Problems] of text that the YAML library refuses, without the stages of its
// parser. Errors of the reader keep their type.
func Explain(err error) error {
	if several, ok := errors.AsType[*yaml.LoadErrors](err); ok {
		var all Problems
		for _, e := range several.Errors {
			all = append(all, explain(e))
		}
		return all
	}
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return err
	}
	if cause := errors.Unwrap(e); cause != nil && e.Mark.Line == 0 {
		return cause // of the reader
	}
	return Problems{explain(e)}
}

func explain(e *yaml.LoadError) Problem {
	text := cmp.Or(advice[e.Message], e.Message)
	if strings.HasPrefix(text, "unknown anchor ") {
		text += `; quote values that begin with "*"`
	}
	if begin := e.ContextMark; begin.Line > 0 && begin.Line != e.Mark.Line {
		text += fmt.Sprintf(" (%s from line %d)", strings.TrimPrefix(e.ContextMsg, "while "), begin.Line)
	}
	return Problem{Line: e.Mark.Line, Column: e.Mark.Column, Message: text}
}
