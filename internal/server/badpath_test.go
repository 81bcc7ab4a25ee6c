package server_test

import (
	"maps"
	"strings"
)

// badPaths break the rules for keys that are written and for prefixes. No key
// may have them, nor a prefix.
var badPaths = map[string]string{
	"only a slash":          "/",
	"leading slash":         "/a",
	"empty segment":         "a//b",
	"dot":                   ".",
	"dot segment":           "a/./b",
	"last segment dot":      "a/.",
	"dot dot":               "..",
	"dot dot segment":       "a/../b",
	"first segment dot dot": "../a",
	"newline":               "a\nb",
	"null":                  "a\x00b",
	"too long":              strings.Repeat("k", 1025),
	"two trailing slashes":  "a//",
}

// badKeys are what a write refuses as a key.
var badKeys = func() map[string]string {
	keys := map[string]string{"empty": "", "trailing slash": "a/"}
	maps.Copy(keys, badPaths)
	return keys
}()
