package capacity

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Section is a generated part of a document.
type Section struct{ Name, Text string }

// marks returns the marker lines before and after a section of a document.
func marks(name string) (begin, end string) {
	return "<!-- " + name + ": written by fanoutbench capacity -->\n", "<!-- end of " + name + " -->\n"
}

// Replace writes sections between their marker lines in a document.
func Replace(path string, sections []Section) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	for _, s := range sections {
		begin, end := marks(s.Name)
		before, rest, ok := bytes.Cut(text, []byte(begin))
		_, after, ok2 := bytes.Cut(rest, []byte(end))
		if !ok || !ok2 {
			return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), strings.TrimSpace(end))
		}
		text = slices.Concat(before, []byte(begin), []byte(s.Text), []byte(end), after)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// table returns a Markdown table. Columns whose titles end with a colon are aligned right.
func table(titles []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	rules := make([]string, len(titles))
	names := make([]string, len(titles))
	for i, title := range titles {
		names[i], rules[i] = strings.TrimSuffix(title, ":"), "---"
		if names[i] != title {
			rules[i] = "--:"
		}
	}
	b.WriteString("\n")
	line(names)
	line(rules)
	for _, row := range rows {
		line(row)
	}
	b.WriteString("\n")
	return b.String()
}

// count returns a number with commas.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// about returns a number with two significant digits.
func about(n int) string {
	unit := 1
	for n/unit >= 100 {
		unit *= 10
	}
	return count((n + unit/2) / unit * unit)
}
