package object

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// isDocument reports whether a value is a JSON document.
func isDocument(value []byte) bool { return json.Valid(value) && utf8.Valid(value) }

// documentFault returns why a value is not a JSON document, and the line and the column of the
// first fault, in characters.
func documentFault(value []byte) string {
	if len(bytes.TrimSpace(value)) == 0 {
		return "it is empty"
	}
	at, reason := invalidUTF8(value), "not UTF-8"
	// Without the additional byte, the error of a document that is cut off blames a space that is
	// not there.
	var document json.RawMessage
	err := json.Unmarshal(append(bytes.Clone(value), 0), &document)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && int(syntax.Offset)-1 < at {
		at, reason = int(syntax.Offset)-1, syntax.Error()
	} else if at == len(value) {
		reason = "unexpected end of JSON input"
	}
	before := value[:at]
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d: %s", bytes.Count(before, []byte("\n"))+1, column, reason)
}

// invalidUTF8 returns the index of the first byte that is not UTF-8, or the length.
func invalidUTF8(value []byte) int {
	for at := 0; at < len(value); {
		r, size := utf8.DecodeRune(value[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return len(value)
}
