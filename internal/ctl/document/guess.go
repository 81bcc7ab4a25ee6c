package document

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
)

// types are the endings of names that say what is inside.
var types = map[string]string{
	".json": "application/json",
	".yaml": "application/yaml",
	".yml":  "application/yaml",
	".toml": "application/toml",
	".xml":  "application/xml",
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".csv":  "text/csv; charset=utf-8",
	".md":   "text/markdown; charset=utf-8",
}

// TypeOf guesses the content type of a value: by the name of its file, if it has
// one, and else it is JSON if it is an object or an array of JSON. Empty where that
// says nothing, and the server decides.
func TypeOf(file string, value []byte) string {
	if t, ok := types[strings.ToLower(filepath.Ext(file))]; ok {
		return t
	}
	if text := bytes.TrimSpace(value); len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text) {
		return "application/json"
	}
	return ""
}
