package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Size is a number of bytes. *Size is a flag value.
type Size int64

// Units of sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// Set parses a size such as 1048576, 64MiB, 1.5GiB or 10MB.
func (s *Size) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("invalid size %q (want for example 64MiB)", text)
	}
	*s = Size(n)
	return nil
}

// String returns the size as a whole number of the largest possible unit. Set restores the
// exact size.
func (s Size) String() string {
	switch {
	case s == 0:
	case s%GiB == 0:
		return fmt.Sprintf("%dGiB", s/GiB)
	case s%MiB == 0:
		return fmt.Sprintf("%dMiB", s/MiB)
	case s%KiB == 0:
		return fmt.Sprintf("%dKiB", s/KiB)
	}
	return fmt.Sprintf("%dB", int64(s))
}

// Type returns the placeholder in the help text.
func (*Size) Type() string { return "size" }

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (s *Size) UnmarshalYAML(node ast.Node) error { return set(s, node) }

// MarshalYAML implements [yaml.InterfaceMarshaler].
func (s Size) MarshalYAML() (any, error) { return s.String(), nil }

// Duration is a length of time. *Duration is a flag value.
type Duration time.Duration

// Set parses a duration such as 10s, 1m30s or 1h.
func (d *Duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("invalid duration %q (want for example 10s, 1m30s or 1h)", text)
	}
	*d = Duration(v)
	return nil
}

// String returns the duration without zero parts: 1h, not 1h0m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Type returns the placeholder in the help text.
func (*Duration) Type() string { return "duration" }

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (d *Duration) UnmarshalYAML(node ast.Node) error { return set(d, node) }

// MarshalYAML implements [yaml.InterfaceMarshaler].
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// Switch is on or off.
type Switch bool

// Set parses on, off, true and false.
func (s *Switch) Set(text string) error {
	switch text {
	case "on", "true":
		*s = true
	case "off", "false":
		*s = false
	default:
		return fmt.Errorf("invalid value %q (want on or off)", text)
	}
	return nil
}

// String returns on or off.
func (s Switch) String() string {
	if s {
		return "on"
	}
	return "off"
}

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (s *Switch) UnmarshalYAML(node ast.Node) error { return set(s, node) }

// MarshalYAML implements [yaml.InterfaceMarshaler].
func (s Switch) MarshalYAML() (any, error) { return s.String(), nil }

// set sets a value from a node of the file. An error has the position of the node.
func set(value interface{ Set(text string) error }, node ast.Node) error {
	text := node.String()
	if s, ok := node.(*ast.StringNode); ok {
		text = s.Value
	}
	if err := value.Set(text); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: node.GetToken()}
	}
	return nil
}

// Secret is a text that is never printed.
type Secret string

const hidden = "(not shown)"

// Set sets the secret.
func (s *Secret) Set(text string) error { *s = Secret(text); return nil }

// String returns a placeholder, or "" for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Type returns the placeholder in the help text.
func (*Secret) Type() string { return "text" }

// MarshalYAML implements [yaml.InterfaceMarshaler].
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }
