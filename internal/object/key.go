package object

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyBytes is the maximum length of a key in a write. It is a convention, well below
// the limits of etcd and of log lines.
const MaxKeyBytes = 1024

// Key is the path of an object inside its resource: segments separated by slashes. Keys
// written through fanoutd satisfy [ParseKey]. Keys that other programs wrote to etcd may
// be any UTF-8 text.
type Key string

// ParseKey returns s as a key. A key is valid UTF-8 of 1 to MaxKeyBytes bytes, without
// control characters, without a leading or trailing slash, and without empty, "." or ".."
// segments. The error names the violated rule.
func ParseKey(s string) (Key, error) {
	if s == "" {
		return "", fmt.Errorf("must not be empty")
	}
	if err := checkPath(s); err != nil {
		return "", err
	}
	return Key(s), nil
}

func checkPath(s string) error {
	if len(s) > MaxKeyBytes {
		return fmt.Errorf("has %d bytes, the limit is %d", len(s), MaxKeyBytes)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("is not valid UTF-8")
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return fmt.Errorf("has a control character at byte %d", i)
	}
	for segment := range strings.SplitSeq(s, "/") {
		switch segment {
		case "":
			return fmt.Errorf("%q has an empty segment", s)
		case ".", "..":
			return fmt.Errorf("%q has a %q segment", s, segment)
		}
	}
	return nil
}

// Name returns the last segment of the key.
func (k Key) Name() string {
	return string(k[strings.LastIndexByte(string(k), '/')+1:])
}

// Scope is a set of keys of a resource: all keys, the keys below a path, or one key. The
// zero Scope is the whole resource. Scopes are comparable, and two scopes with the same
// definition are equal.
type Scope struct {
	kind scopeKind
	path string
}

type scopeKind uint8

const (
	scopeAll scopeKind = iota
	scopePrefix
	scopeKey
)

// ExactKey returns the scope that covers k alone.
func ExactKey(k Key) Scope { return Scope{scopeKey, string(k)} }

// ParsePrefix returns the scope of all keys below path. The path follows the rules of
// [ParseKey] but may end in one slash.
func ParsePrefix(path string) (Scope, error) {
	trimmed := strings.TrimSuffix(path, "/")
	if trimmed == "" {
		return Scope{}, fmt.Errorf("must not be empty; leave the scope out for the whole resource")
	}
	if err := checkPath(trimmed); err != nil {
		return Scope{}, err
	}
	return Scope{scopePrefix, trimmed}, nil
}

// ParseKeyScope returns the scope of one key. It accepts every UTF-8 key, because objects
// that other programs wrote to etcd are served, too.
func ParseKeyScope(key string) (Scope, error) {
	switch {
	case key == "":
		return Scope{}, fmt.Errorf("must not be empty")
	case !utf8.ValidString(key):
		return Scope{}, fmt.Errorf("is not valid UTF-8")
	}
	return ExactKey(Key(key)), nil
}

// Key returns the key of a scope of one key, and false for other scopes.
func (s Scope) Key() (Key, bool) {
	if s.kind != scopeKey {
		return "", false
	}
	return Key(s.path), true
}

// Prefix returns the path of a scope of all keys below a path, without a trailing slash.
// It returns false for other scopes.
func (s Scope) Prefix() (string, bool) {
	if s.kind != scopePrefix {
		return "", false
	}
	return s.path, true
}

// Contains reports whether the scope covers k.
func (s Scope) Contains(k Key) bool {
	switch s.kind {
	case scopeKey:
		return string(k) == s.path
	case scopePrefix:
		return len(k) > len(s.path) && k[len(s.path)] == '/' && string(k[:len(s.path)]) == s.path
	}
	return true
}

// Overlaps reports whether a key exists that both scopes cover.
func (s Scope) Overlaps(other Scope) bool {
	switch {
	case s.kind == scopeKey:
		return other.Contains(Key(s.path))
	case other.kind == scopeKey:
		return s.Contains(Key(other.path))
	case s.kind == scopeAll, other.kind == scopeAll:
		return true
	}
	return s.path == other.path || other.Contains(Key(s.path)) || s.Contains(Key(other.path))
}

// First returns the smallest key that the scope can cover.
func (s Scope) First() Key {
	if s.kind == scopePrefix {
		return Key(s.path + "/")
	}
	return Key(s.path)
}

// String returns the canonical form of the scope: "*", "prefix/*" or "=key".
func (s Scope) String() string {
	switch s.kind {
	case scopeKey:
		return "=" + s.path
	case scopePrefix:
		return s.path + "/*"
	}
	return "*"
}

// ScopesOf is an iterator over all scopes that cover k, from the widest to the narrowest:
// the whole resource, each ancestor path, and the key itself.
func ScopesOf(k Key) func(yield func(Scope) bool) {
	return func(yield func(Scope) bool) {
		if !yield(Scope{}) {
			return
		}
		for i := range len(k) {
			if k[i] == '/' && !yield(Scope{scopePrefix, string(k[:i])}) {
				return
			}
		}
		yield(ExactKey(k))
	}
}
