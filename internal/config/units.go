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

// Size is a number of bytes. Its Set, String and Type make it the value of a flag.
type Size int64

// Units of sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// Set reads sizes such as 1048576, 64MiB, 1.5GiB and 10MB.
func (s *Size) Set(text string) error {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 64MiB", text)
	}
	*s = Size(n)
	return nil
}

// String returns the size in the largest unit in which it is a whole number, so
// that Set takes the same size from it.
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

// Type names the kind of value in help.
func (*Size) Type() string { return "size" }

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (s *Size) UnmarshalYAML(node ast.Node) error { return set(s, node) }

// MarshalYAML implements [yaml.InterfaceMarshaler].
func (s Size) MarshalYAML() (any, error) { return s.String(), nil }

// Duration is a length of time. Its Set, String and Type make it the value of a
// flag.
type Duration time.Duration

// Set reads durations such as 10s, 1m30s and 1h.
func (d *Duration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 10s, 1m30s or 1h", text)
	}
	*d = Duration(v)
	return nil
}

// String returns the duration without parts that are zero: 1h, not 1h0m0s.
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

// Type names the kind of value in help.
func (*Duration) Type() string { return "duration" }

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (d *Duration) UnmarshalYAML(node ast.Node) error { return set(d, node) }

// MarshalYAML implements [yaml.InterfaceMarshaler].
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// Switch is on or off.
type Switch bool

// Set reads on and off, and true and false, which mean the same.
func (s *Switch) Set(text string) error {
	switch text {
	case "on", "true":
		*s = true
	case "off", "false":
		*s = false
	default:
		return fmt.Errorf("%q is neither on nor off", text)
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

// set sets a value from the file; an error points to where it is.
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

// Secret is a text that is never shown.
type Secret string

const hidden = "(not shown)"

// Set takes the secret.
func (s *Secret) Set(text string) error { *s = Secret(text); return nil }

// String returns nothing of the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Type names the kind of value in help.
func (*Secret) Type() string { return "text" }

// MarshalYAML implements [yaml.InterfaceMarshaler].
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }
