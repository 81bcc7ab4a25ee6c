package shell

import (
	"strings"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// Bounds of what an error keeps of the standard error of a command. Servers keep 1 KiB of the message that a
// subscriber reports.
const (
	maxLastWords = 400 // bytes
	maxLastLines = 3
)

// lastWords keeps the end of what is written to it.
type lastWords []byte

func (w *lastWords) Write(p []byte) (int, error) {
	const kept = 4 * maxLastWords // escape sequences and empty lines do not count
	*w = append(*w, p[max(0, len(p)-kept):]...)
	if excess := len(*w) - kept; excess > 0 {
		*w = append((*w)[:0], (*w)[excess:]...)
	}
	return len(p), nil
}

// String returns the last lines that are not empty, in one line of printable text.
func (w *lastWords) String() string {
	text := ansi.Strip(strings.ToValidUTF8(string(*w), ""))
	var lines []string
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.Map(printable, line)
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	joined := strings.Join(lines[max(0, len(lines)-maxLastLines):], "; ")
	if len(joined) > maxLastWords {
		joined = "…" + strings.ToValidUTF8(joined[len(joined)-maxLastWords+len("…"):], "")
	}
	return joined
}

// printable replaces spaces of other kinds, and removes what cannot be seen.
func printable(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.IsPrint(r):
		return r
	}
	return -1
}
