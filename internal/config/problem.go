package config

import "strings"

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	Origin  string // file:line:column, flag or variable; empty if it is not known
	Key     string // path in the file, such as resources[1].codec; empty if the message says it
	Message string
}

// String returns the problem on one line that begins with where it is.
func (p Problem) String() string {
	var parts []string
	for _, part := range []string{p.Origin, p.Key, p.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
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
