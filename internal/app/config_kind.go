package app

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// kind is what the values of a setting are, and how they are written in flags,
// in variables and in the file.
type kind struct {
	word   string                    // what help calls a value
	must   string                    // what a value must be
	parse  func(string) (any, error) // of a flag, a variable or a scalar in the file
	format func(any) string          // the inverse of parse
	nodes  []ast.NodeType            // which scalars of the file are such values
}

var (
	kindText = &kind{
		word: "text", must: "text",
		parse:  func(s string) (any, error) { return s, nil },
		format: func(v any) string { return v.(string) },
		nodes:  []ast.NodeType{ast.StringType, ast.LiteralType},
	}
	kindBool = &kind{
		word: "true|false", must: "true or false",
		parse:  func(s string) (any, error) { return strconv.ParseBool(s) },
		format: func(v any) string { return strconv.FormatBool(v.(bool)) },
		nodes:  []ast.NodeType{ast.BoolType},
	}
	kindNumber = &kind{
		word: "number", must: "a whole number",
		parse:  func(s string) (any, error) { return strconv.Atoi(s) },
		format: func(v any) string { return strconv.FormatInt(asInt(v), 10) },
		nodes:  []ast.NodeType{ast.IntegerType},
	}
	kindSize = &kind{
		word: "size", must: "a size such as 64MiB",
		parse:  func(s string) (any, error) { return ParseSize(s) },
		format: func(v any) string { return Size(asInt(v)).String() },
		nodes:  []ast.NodeType{ast.StringType, ast.IntegerType},
	}
	kindDuration = &kind{
		word: "duration", must: "a duration such as 10s, 1m30s or 1h",
		parse:  func(s string) (any, error) { return time.ParseDuration(s) },
		format: func(v any) string { return formatDuration(v.(time.Duration)) },
		nodes:  []ast.NodeType{ast.StringType},
	}
	kindList = &kind{
		word: "list", must: "a list of texts",
		parse:  func(s string) (any, error) { return splitList(s), nil },
		format: func(v any) string { return strings.Join(v.([]string), ",") },
		nodes:  nil, // read as a sequence
	}
)

// asInt returns the number behind a value of kindNumber, kindSize or
// kindDuration: the fields of Config have different types for them.
func asInt(v any) int64 {
	switch v := v.(type) {
	case int:
		return int64(v)
	case Size:
		return int64(v)
	case time.Duration:
		return int64(v)
	}
	panic("a setting that is ordered must be an int, a Size or a duration")
}

// formatDuration writes 1h for what the time package writes as 1h0m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func splitList(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" })
}
