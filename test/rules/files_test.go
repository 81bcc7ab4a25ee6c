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
	set    *token.FileSet
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
				if !yield(file{&p, p.ImportPath + "/" + name, slices.Contains(tests, name), syntax, set}) {
					return
				}
			}
		}
	}
}

// mentions reports whether the file has a selector such as time.Sleep.
func (f *file) mentions(name string) bool { return mentions(f.syntax, name) }

func mentions(in ast.Node, name string) bool {
	found := false
	ast.Inspect(in, func(n ast.Node) bool {
		found = found || isSelector(n, name)
		return !found
	})
	return found
}

func isSelector(n ast.Node, name string) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name+"."+s.Sel.Name == name
}

// calls returns the calls of a function such as time.Sleep.
func (f *file) calls(name string) iter.Seq[*ast.CallExpr] {
	return func(yield func(*ast.CallExpr) bool) {
		for n := range ast.Preorder(f.syntax) {
			if call, ok := n.(*ast.CallExpr); ok && isSelector(call.Fun, name) && !yield(call) {
				return
			}
		}
	}
}

// explains reports whether there is a comment on the line of the node or above it.
func (f *file) explains(n ast.Node) bool {
	line := f.set.Position(n.Pos()).Line
	return slices.ContainsFunc(f.syntax.Comments, func(c *ast.CommentGroup) bool {
		end := f.set.Position(c.End()).Line
		return end == line || end == line-1
	})
}

func (f *file) position(n ast.Node) string {
	return f.name + ":" + strconv.Itoa(f.set.Position(n.Pos()).Line)
}

func (f *file) imports(path string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(i *ast.ImportSpec) bool {
		unquoted, err := strconv.Unquote(i.Path.Value)
		return err == nil && unquoted == path
	})
}
