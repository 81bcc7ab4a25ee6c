package server_test

import (
	"maps"
	"strings"
)

// badPaths are invalid both as keys of writes and as prefixes.
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

// badKeys are the keys that a Put refuses.
var badKeys = func() map[string]string {
	keys := map[string]string{"empty": "", "trailing slash": "a/"}
	maps.Copy(keys, badPaths)
	return keys
}()
