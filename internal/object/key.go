package object

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyBytes is the length of the longest key that a write may have. It keeps
// keys well under what etcd and log lines bear; it is a convention, not a
// measured bound.
const MaxKeyBytes = 1024

// Key is the path of an object inside its resource: segments separated by
// slashes. Keys that other programs wrote into etcd may be any UTF-8 text; those
// that are written through fanoutd satisfy [ParseKey].
type Key string

// ParseKey returns s as a key, or an error that says which rule it breaks: valid
// UTF-8, 1 to MaxKeyBytes bytes, no leading or trailing slash, no empty, "." or
// ".." segment, no control characters.
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

// Scope says which objects of a resource are meant. The zero Scope is the whole
// resource. Scopes are comparable and canonical: two scopes that cover the same
// keys by construction are equal.
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

// ParsePrefix returns the scope of all keys below path, which follows the rules
// of [ParseKey] but may end in one slash.
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

// ParseKeyScope returns the scope of one key, which may be any key that can be
// in etcd: objects that other programs wrote are served, too.
func ParseKeyScope(key string) (Scope, error) {
	switch {
	case key == "":
		return Scope{}, fmt.Errorf("must not be empty")
	case !utf8.ValidString(key):
		return Scope{}, fmt.Errorf("is not valid UTF-8")
	}
	return ExactKey(Key(key)), nil
}

// Key returns the key that the scope covers alone, or false for a scope that can
// cover several.
func (s Scope) Key() (Key, bool) {
	if s.kind != scopeKey {
		return "", false
	}
	return Key(s.path), true
}

// Prefix returns the path below which the scope covers all keys, or false for a scope
// that is no subtree. The path does not end in a slash.
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

// First returns the smallest key that the scope can cover.
func (s Scope) First() Key {
	if s.kind == scopePrefix {
		return Key(s.path + "/")
	}
	return Key(s.path)
}

// String returns the scope for logs and for the canonical form of a request:
// "*", "prefix/*" or "=key".
func (s Scope) String() string {
	switch s.kind {
	case scopeKey:
		return "=" + s.path
	case scopePrefix:
		return s.path + "/*"
	}
	return "*"
}

// ScopesOf calls yield with every scope that covers k, from the widest to the
// narrowest, until yield returns false: the whole resource, each ancestor path,
// the key itself. A change of k concerns these scopes and no others.
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
