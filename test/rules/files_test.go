package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// file is a source file of the module.
type file struct {
	pkg    *pkg
	name   string
	test   bool
	syntax *ast.File
}

// files returns all source files that are not generated.
func files(t *testing.T) iter.Seq[file] {
	t.Helper()
	set := token.NewFileSet()
	return func(yield func(file) bool) {
		for _, p := range packages(t) {
			tests := append(slices.Clone(p.TestGoFiles), p.XTestGoFiles...)
			for _, name := range append(slices.Clone(p.GoFiles), tests...) {
				path := filepath.Join(p.Dir, name)
				syntax, err := parser.ParseFile(set, path, nil, parser.ParseComments)
				if err != nil {
					t.Fatal(err)
				}
				if ast.IsGenerated(syntax) {
					continue
				}
				if !yield(file{&p, p.ImportPath + "/" + name, slices.Contains(tests, name), syntax}) {
					return
				}
			}
		}
	}
}

// mentions reports whether the file has a selector such as time.Sleep.
func (f *file) mentions(name string) bool {
	found := false
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name+"."+s.Sel.Name == name {
				found = true
			}
		}
		return !found
	})
	return found
}

func (f *file) imports(path string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(i *ast.ImportSpec) bool {
		unquoted, err := strconv.Unquote(i.Path.Value)
		return err == nil && unquoted == path
	})
}
