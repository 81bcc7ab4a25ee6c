package output

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Visible returns a writer that shows control characters instead of sending them to the
// terminal: ESC as ^[, and bytes that are not UTF-8 as \uFFFD. Otherwise a stored value could
// move the cursor, change the window title or type commands. Line breaks and tabs pass. Each
// call of Write must contain whole characters.
func Visible(w io.Writer) io.Writer { return visible{w} }

type visible struct{ w io.Writer }

// Write implements [io.Writer].
func (v visible) Write(text []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			b.WriteByte('^')
			b.WriteByte(byte(r) ^ 0x40)
		case r >= 0x80 && r < 0xa0: // control characters of eight bits
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	if _, err := io.WriteString(v.w, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}
