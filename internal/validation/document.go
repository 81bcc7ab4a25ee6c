package validation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of a document. They are conventions, well above configuration: a value has 1 MiB by default.
const (
	maxDepth  = 100     // of nested objects and arrays, which are read recursively
	maxValues = 100_000 // of a document. Each takes some 50 to 400 bytes of memory while it is checked.
)

// parseDocument returns a JSON document as Go values: nil, bool, string, int64, uint64, float64, []any and
// map[string]any. A number without a fraction is an int64 if it fits, or else a uint64 if that fits; written as 1.0
// or 1e3, it is an int64 if it is at most 2^53. A number without a fraction is never rounded, but refused.
//
// Unlike encoding/json it refuses two members with the same name, because readers differ in which one they
// see, and the checks would see only one. It reads the text once, and shares its memory.
func parseDocument(text string) (any, *fault) {
	p := parser{text: text}
	value, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.text) {
		return nil, p.malformed()
	}
	return value, nil
}

// fault is what is wrong with a document.
type fault struct {
	path   []string // from the inside to the outside
	reason string
}

// below returns the fault of a value as that of the object or array that contains it.
func (f *fault) below(name string) *fault {
	f.path = append(f.path, name)
	return f
}

// pointer returns the place of the fault.
func (f *fault) pointer() string {
	path := make([]string, len(f.path))
	for i, name := range f.path {
		path[len(path)-1-i] = name
	}
	return pointerTo(path)
}

type parser struct {
	text   string
	at     int
	values int

	members []member // of the objects that have begun
}

type member struct {
	name  string
	value any
}

func (p *parser) malformed() *fault {
	return &fault{reason: fmt.Sprintf("is not JSON: fault at byte %d", p.at)}
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// take skips a byte and the space before it, and reports whether it is there.
func (p *parser) take(c byte) bool {
	if p.space(); p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) word(word string, value any) (any, *fault) {
	if !strings.HasPrefix(p.text[p.at:], word) {
		return nil, p.malformed()
	}
	p.at += len(word)
	return value, nil
}

func (p *parser) value(depth int) (any, *fault) {
	switch p.values++; {
	case p.values > maxValues:
		return nil, &fault{reason: fmt.Sprintf("has more than %d values, which is too many to check", maxValues)}
	case depth > maxDepth:
		return nil, &fault{reason: fmt.Sprintf("is nested deeper than %d, which is too deep to check", maxDepth)}
	}
	p.space()
	if p.at == len(p.text) {
		return nil, p.malformed()
	}
	switch p.text[p.at] {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		return p.string()
	case 't':
		return p.word("true", true)
	case 'f':
		return p.word("false", false)
	case 'n':
		return p.word("null", nil)
	}
	return p.number()
}

func (p *parser) object(depth int) (any, *fault) {
	p.at++
	if p.take('}') {
		return map[string]any{}, nil
	}
	begin := len(p.members)
	for {
		p.space()
		name, err := p.string()
		if err != nil {
			return nil, err
		}
		if !p.take(':') {
			return nil, p.malformed()
		}
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err.below(name)
		}
		p.members = append(p.members, member{name, value})
		if p.take('}') {
			return p.collect(begin)
		}
		if !p.take(',') {
			return nil, p.malformed()
		}
	}
}

// collect returns an object with the members from an index on.
func (p *parser) collect(begin int) (any, *fault) {
	members := p.members[begin:]
	object := make(map[string]any, len(members))
	for i, m := range members {
		if object[m.name] = m.value; len(object) == i {
			return nil, (&fault{reason: "is there more than once, and readers differ in which one they see"}).below(m.name)
		}
	}
	p.members = p.members[:begin]
	return object, nil
}

func (p *parser) array(depth int) (any, *fault) {
	p.at++
	items := []any{}
	if p.take(']') {
		return items, nil
	}
	for {
		value, err := p.value(depth + 1)
		if err != nil {
			return nil, err.below(strconv.Itoa(len(items)))
		}
		items = append(items, value)
		if p.take(']') {
			return items, nil
		}
		if !p.take(',') {
			return nil, p.malformed()
		}
	}
}

func (p *parser) string() (string, *fault) {
	if p.at == len(p.text) || p.text[p.at] != '"' {
		return "", p.malformed()
	}
	begin, escaped := p.at, false
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '\\':
			escaped = true
			p.at++ // and what follows
		case c < ' ':
			return "", p.malformed()
		case c == '"':
			p.at++
			return p.unescape(p.text[begin:p.at], escaped)
		}
	}
	p.at = len(p.text)
	return "", p.malformed()
}

// unescape returns the text of a string with its quotes.
func (p *parser) unescape(quoted string, escaped bool) (text string, _ *fault) {
	if !utf8.ValidString(quoted) {
		return "", p.malformed()
	}
	if escaped {
		if err := json.Unmarshal([]byte(quoted), &text); err != nil {
			return "", p.malformed()
		}
		return text, nil
	}
	return quoted[1 : len(quoted)-1], nil
}

func (p *parser) number() (any, *fault) {
	begin, isInteger := p.at, true
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c >= '0' && c <= '9', c == '-':
			continue
		case c == '.', c == 'e', c == 'E', c == '+':
			isInteger = false
			continue
		}
		break
	}
	text := p.text[begin:p.at]
	if digits := strings.TrimPrefix(text, "-"); digits == "" || digits[0] == '0' && len(digits) > 1 && isInteger || !isInteger && !json.Valid([]byte(text)) {
		p.at = begin
		return nil, p.malformed() // such as 01, 1. and +1
	}
	if isInteger {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, &fault{reason: "is too large for a number: " + clip(text, maxGivenBytes)}
	case err != nil:
		p.at = begin
		return nil, p.malformed()
	case f != math.Trunc(f):
		return f, nil
	}
	if rounded := strconv.FormatFloat(f, 'g', -1, 64); significant(text) != significant(rounded) {
		// It might pass for an integer, or for a smaller or larger one.
		return nil, &fault{reason: fmt.Sprintf("has more digits than can be checked: %s would be rounded to %s", clip(text, maxGivenBytes), rounded)}
	}
	if math.Abs(f) <= 1<<53 {
		return int64(f), nil // CEL does not subtract a double from an int
	}
	return f, nil
}

// significant returns the digits of a number without its sign, its exponent and the zeros around them. If two
// numbers have the same nearest float64, they are equal if these digits are.
func significant(number string) string {
	if end := strings.IndexAny(number, "eE"); end >= 0 {
		number = number[:end]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	return strings.Trim(whole+fraction, "-0")
}
