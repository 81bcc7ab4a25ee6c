package app

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes.
type Size int64

// Units of sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// ParseSize reads sizes such as 1048576, 64MiB, 1.5GiB and 10MB.
func ParseSize(s string) (Size, error) {
	n, err := humanize.ParseBytes(s)
	if err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size such as 64MiB", s)
	}
	return Size(n), nil
}

// String returns the size in the largest unit in which it is a whole number, so
// that ParseSize returns the same size again.
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
