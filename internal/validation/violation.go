package validation

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of a report. It is sent in the trailer of a response, and many clients accept only 8 KiB there.
const (
	// MaxViolations is how many violations one request reports at most.
	MaxViolations = 8

	maxPointerBytes = 160
	maxMessageBytes = 240 // and what the pointer leaves
	maxGivenBytes   = 60  // of the value that was given
)

// Violation is a fault of an object.
type Violation struct {
	Pointer string // JSON pointer into the value; empty: the whole value
	Message string // what is allowed, and what was given
}

// Violations are the faults of an object, at most [MaxViolations].
type Violations []Violation

func (v *Violations) add(path []string, format string, args ...any) {
	v.at(pointerTo(path), format, args...)
}

func (v *Violations) at(pointer, format string, args ...any) {
	if len(*v) < MaxViolations {
		pointer = clip(pointer, maxPointerBytes)
		*v = append(*v, Violation{pointer, clip(fmt.Sprintf(format, args...), maxMessageBytes+maxPointerBytes-len(pointer))})
	}
}

// pointerTo returns the JSON pointer of a path.
func pointerTo(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(name))
	}
	return b.String()
}

// pathOf returns the path of a JSON pointer.
func pathOf(pointer string) []string {
	if pointer == "" {
		return nil
	}
	path := strings.Split(pointer[1:], "/")
	for i, name := range path {
		path[i] = pointerUnescapes.Replace(name)
	}
	return path
}

var (
	pointerEscapes   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")
)

// lookup returns the value at a JSON pointer.
func lookup(value any, pointer string) (any, bool) {
	if pointer == "" {
		return value, true
	}
	for _, name := range pathOf(pointer) {
		switch parent := value.(type) {
		case map[string]any:
			child, ok := parent[name]
			if !ok {
				return nil, false
			}
			value = child
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, false
			}
			value = parent[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// given describes a value that was given.
func given(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return fmt.Sprintf("an object with %d members", len(v))
	case []any:
		return fmt.Sprintf("an array with %d items", len(v))
	case string:
		return strconv.Quote(clip(v, maxGivenBytes))
	case []byte:
		return fmt.Sprintf("%d bytes", len(v))
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return clip(string(text), maxGivenBytes)
}

// list describes allowed values.
func list(values []any) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(given(v))
		if b.Len() > maxMessageBytes {
			break
		}
	}
	return b.String()
}

// number describes a number of a schema.
func number(r *big.Rat) string {
	if r == nil {
		return "a number that is too large"
	}
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// clip returns the beginning of a text that is too long. It does not cut a character.
func clip(s string, limit int) string {
	const ellipsis = "..."
	if len(s) <= limit {
		return s
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
