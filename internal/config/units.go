package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
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

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(text []byte) error { return s.Set(string(text)) }

// MarshalText implements [encoding.TextMarshaler].
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

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

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error { return d.Set(string(text)) }

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Switch is on or off.
type Switch bool

// UnmarshalText parses on, off, true and false.
func (s *Switch) UnmarshalText(text []byte) error {
	switch string(text) {
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

// MarshalText implements [encoding.TextMarshaler].
func (s Switch) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

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

// MarshalText implements [encoding.TextMarshaler].
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
