package document

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// longest is how long a name in a directory may be, with room for the ending.
// File systems take 255 bytes.
const longest = 200

// ending is that of the files of a directory.
const ending = ".yaml"

// FileName returns the path, relative to a directory and with slashes, of the file
// that holds the document of a key. Two keys never have the same path, none leads
// out of the directory, and no file stands where another needs a directory. What
// names of files should not have is written as %XX; what is too long is cut, and
// made unique by a hash. The key inside of the document is the one that counts.
func FileName(key string) string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		s = escape(s)
		if !last && strings.HasSuffix(s, ending) {
			// The file of another key may have this name.
			s = strings.TrimSuffix(s, ending) + "%2Eyaml"
		}
		if len(s) > longest {
			hash := sha256.Sum256([]byte(segments[i]))
			s = s[:longest-40] + "%~" + hex.EncodeToString(hash[:16])
		}
		segments[i] = s
	}
	return strings.Join(segments, "/") + ending
}

func escape(segment string) string {
	if segment == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(segment) {
		c := segment[i]
		switch {
		case c < ' ', c == 0x7f, c == '%', c == '\\', c == ':', c == '*', c == '?', c == '"', c == '<', c == '>', c == '|', c == '.' && i == 0:
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
