package validation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fanoutd/fanoutd/internal/object"
)

// keyPattern matches keys. Its segments are compared with those of a key: * stands for one segment, and ** at
// the end for one or more.
type keyPattern []string

const (
	oneSegment   = "*"
	moreSegments = "**"
)

// parseKeyPattern parses a pattern such as flags/*, shop/** or banner.
func parseKeyPattern(text string) (keyPattern, error) {
	switch {
	case text == "":
		return nil, errors.New("must not be empty")
	case len(text) > object.MaxKeyBytes || !utf8.ValidString(text):
		return nil, fmt.Errorf("must be UTF-8 of at most %d bytes, as keys are", object.MaxKeyBytes)
	}
	p := keyPattern(strings.Split(text, "/"))
	for i, segment := range p {
		switch {
		case segment == "":
			return nil, fmt.Errorf("%q has an empty segment", text)
		case segment == moreSegments && i < len(p)-1:
			return nil, fmt.Errorf("%q has ** before its end", text)
		case segment != oneSegment && segment != moreSegments && strings.Contains(segment, "*"):
			return nil, fmt.Errorf("%q has a * in the segment %q; * and ** stand for whole segments", text, segment)
		}
	}
	return p, nil
}

// matches reports whether the pattern matches a key.
func (p keyPattern) matches(key object.Key) bool {
	rest, more := string(key), true
	for _, segment := range p {
		if !more {
			return false
		}
		if segment == moreSegments {
			return true
		}
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if segment != oneSegment && segment != name {
			return false
		}
	}
	return !more
}

// matchAny reports whether one of the patterns matches a key. No patterns match every key.
func matchAny(patterns []keyPattern, key object.Key) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p keyPattern) bool { return p.matches(key) })
}
