package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Origin says where a value comes from. The zero Origin is the default.
type Origin struct {
	Name         string // of a file, of a variable or, with its dashes, of a flag
	Line, Column int    // in a file, from 1
}

func (o Origin) inFile() bool { return o.Line > 0 }

func (o Origin) String() string {
	if o.inFile() {
		return fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Column)
	}
	return o.Name
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Origin  Origin
	Key     string // in the file, such as resources[1].codec; empty if it is about a whole source
	Message string
}

// String returns the problem on one line that begins with where it is.
func (p Problem) String() string {
	parts := make([]string, 0, 3)
	if p.Origin.Name != "" {
		parts = append(parts, p.Origin.String())
	}
	// A flag or a variable is the same thing as its key.
	if p.Key != "" && (p.Origin.Name == "" || p.Origin.inFile()) {
		parts = append(parts, p.Key)
	}
	return strings.Join(append(parts, p.Message), ": ")
}

// Problems is the error of a configuration: everything that is wrong with it.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems in the order of the file; those of flags and
// variables come behind.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Origin.inFile() != b.Origin.inFile() {
			if a.Origin.inFile() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Origin.Line, b.Origin.Line), cmp.Compare(a.Origin.Column, b.Origin.Column))
	})
	return ps
}

// orNil returns the problems as an error.
func (ps Problems) orNil() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// origins has the origins of values by key, such as etcd.endpoints[0].
type origins map[string]Origin

// of returns the origin of the value with the key or, if it has none of its own,
// that of what it is a part of.
func (o origins) of(key string) Origin {
	for {
		if origin, ok := o[key]; ok {
			return origin
		}
		end := strings.LastIndexAny(key, ".[")
		if end < 0 {
			return Origin{}
		}
		key = key[:end]
	}
}
