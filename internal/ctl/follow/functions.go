package follow

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strconv"
	"strings"
	"text/template"

	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// functions are the template functions besides those of text/template. The last argument
// comes from the pipe. docs/reference/fanoutctl.md documents them.
var functions = template.FuncMap{
	"fromJSON": fromJSON,
	"toJSON":   func(v any) (string, error) { return toJSON(v, false) },
	"indentJSON": func(v any) (string, error) {
		return toJSON(v, true)
	},
	"base":    path.Base,
	"dir":     path.Dir,
	"lower":   strings.ToLower,
	"upper":   strings.ToUpper,
	"trim":    strings.TrimSpace,
	"replace": func(old, with, s string) string { return strings.ReplaceAll(s, old, with) },
	"split":   func(separator, s string) []string { return strings.Split(s, separator) },
	"join":    join,
	"quote":   strconv.Quote,
	"indent": func(spaces int, s string) string {
		fill := strings.Repeat(" ", spaces)
		return fill + strings.ReplaceAll(s, "\n", "\n"+fill)
	},
	"default": func(fallback, v any) any {
		if truth, ok := template.IsTrue(v); ok && truth {
			return v
		}
		return fallback
	},
	"has":        has,
	"get":        get,
	"base64":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"fromBase64": fromBase64,
	"fail":       func(message string) (string, error) { return "", errors.New(message) },
}

func toJSON(v any, indent bool) (string, error) {
	text, err := document.EncodeJSON(v, indent)
	return strings.TrimRight(string(text), "\n"), err
}

func join(separator string, list any) (string, error) {
	all := reflect.ValueOf(list)
	if all.Kind() != reflect.Slice {
		return "", fmt.Errorf("%T is not a list", list)
	}
	var parts []string
	for _, v := range all.Seq2() {
		parts = append(parts, fmt.Sprint(v))
	}
	return strings.Join(parts, separator), nil
}

// has reports whether a map has a key.
func has(name string, m any) (bool, error) {
	value, err := lookup(name, m)
	return value.IsValid(), err
}

// get returns the value of a key. If the map does not have it, that is "" in labels, and nil in an
// object of JSON. Elsewhere in a template a missing key is an error, so that mistakes do not end up
// in files.
func get(name string, m any) (any, error) {
	value, err := lookup(name, m)
	if err != nil {
		return nil, err
	}
	if !value.IsValid() {
		value = reflect.Zero(reflect.TypeOf(m).Elem())
	}
	return value.Interface(), nil
}

// lookup returns the value of a key in labels or in an object of JSON. It is invalid if there is none.
func lookup(name string, m any) (value reflect.Value, err error) {
	all := reflect.ValueOf(m)
	if all.Kind() != reflect.Map {
		return value, fmt.Errorf("%T is not a map", m)
	}
	return all.MapIndex(reflect.ValueOf(name)), nil
}

func fromBase64(s string) (string, error) {
	text, err := base64.StdEncoding.DecodeString(s)
	return string(text), err
}
