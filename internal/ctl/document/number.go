package document

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Parse decodes JSON for templates, which print, compare and encode its numbers. Integers
// become int64 or uint64, also those with another spelling, such as 1e6 and 1.0. Numbers that
// fit into no type of Go keep their text, and cannot be compared.
func Parse(text []byte) (any, error) {
	// A decoder would accept another value after the first.
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		return nil, err
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var value any
	if err := in.Decode(&value); err != nil {
		return nil, err
	}
	return withNumbers(value), nil
}

// fraction is a number that templates print as JSON does, and not as 1.2345675e+06.
type fraction float64

func (f fraction) String() string {
	text, _ := json.Marshal(float64(f)) // a number from JSON is finite
	return string(text)
}

// withNumbers replaces the numbers in a decoded value.
func withNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			v[name] = withNumbers(child)
		}
	case []any:
		for i, child := range v {
			v[i] = withNumbers(child)
		}
	case json.Number:
		return numberOf(v)
	}
	return v
}

func numberOf(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
		return u
	}
	const exact = 1 << 53 // larger floating-point numbers stand for several integers
	f, err := n.Float64()
	switch {
	case err != nil || isInteger(n) || f == 0 && !isZero(n): // rounding would change it
		return n
	case f == float64(int64(f)) && f < exact && f > -exact:
		return int64(f)
	}
	return fraction(f)
}

// isInteger reports whether a number is spelled as an integer.
func isInteger(n json.Number) bool { return !strings.ContainsAny(n.String(), ".eE") }

// isZero reports whether a number is spelled as zero, such as -0.0e5.
func isZero(n json.Number) bool {
	digits, _, _ := strings.Cut(strings.ToLower(n.String()), "e")
	return !strings.ContainsAny(digits, "123456789")
}
