package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// marks returns the marker lines before and after a block of a document.
func marks(block string) (begin, end string) {
	return "<!-- " + block + ": written by fanoutbench -->", "<!-- end of " + block + " -->"
}

// surroundings is a document without the content of a block.
type surroundings struct{ before, after []byte }

func readBlock(document, block string) (surroundings, error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return surroundings{}, fmt.Errorf("read the document: %w", err)
	}
	begin, end := marks(block)
	before, rest, ok := bytes.Cut(text, []byte(begin+"\n"))
	_, after, ok2 := bytes.Cut(rest, []byte(end+"\n"))
	if !ok || !ok2 {
		return surroundings{}, fmt.Errorf("%s has no lines %q and %q", document, begin, end)
	}
	return surroundings{before, after}, nil
}

// replace replaces the content of a block.
func replace(document, block string, text []byte) error {
	c, err := readBlock(document, block)
	if err != nil {
		return err
	}
	begin, end := marks(block)
	now := slices.Concat(c.before, []byte(begin+"\n"), text, []byte(end+"\n"), c.after)
	if err := os.WriteFile(document, now, 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// emptyFolder creates a directory, or removes the plots in it, and returns its path.
func emptyFolder(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory for plots: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	if err != nil {
		return "", fmt.Errorf("find old plots: %w", err)
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return "", fmt.Errorf("remove an old plot: %w", err)
		}
	}
	return dir, nil
}
