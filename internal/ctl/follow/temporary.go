package follow

import (
	"os"
	"path/filepath"
	"regexp"
)

// removeTemporaries removes the replacements of a file that processes have left behind when
// they were killed. Another process that writes the same file now fails once.
func removeTemporaries(path string) {
	// renameio calls the replacement of "file" ".file1234567890123456789", with a random number.
	// Nearly all of these numbers have 15 digits or more, which few other files have.
	temporary := regexp.MustCompile(`^\.` + regexp.QuoteMeta(filepath.Base(path)) + `[0-9]{15,19}$`)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // there is no such folder yet, or writing will report the error
	}
	for _, e := range entries {
		if temporary.MatchString(e.Name()) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}
