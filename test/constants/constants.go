// Package constants reads the constants that a source file declares, for tests that compare them with a list
// or with the documentation.
package constants

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// Of returns the values of the string constants of a type, in the order of the file.
func Of[T ~string](t testing.TB, file, typeName string) (values []T) {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
			for _, expression := range spec.Values {
				value, err := strconv.Unquote(expression.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, T(value))
			}
		}
		return true
	})
	if values == nil {
		t.Fatalf("%s has no constants of the type %s", file, typeName)
	}
	return values
}
