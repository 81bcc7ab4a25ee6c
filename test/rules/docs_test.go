package rules

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/architecture.md calls package.Name exists.
func TestArchitectureNamesRealThings(t *testing.T) {
	exists, named := map[string]bool{}, map[string]bool{}
	for f := range files(t) {
		if f.test {
			continue
		}
		name := f.pkg.Name
		named[name] = true
		for _, decl := range f.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				exists[name+"."+receiver(d)+d.Name.Name] = true
				exists[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						exists[name+"."+s.Name.Name] = true
						named[s.Name.Name] = true
					}
				}
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, m := range regexp.MustCompile(`[A-Za-z]+(\.[A-Z][A-Za-z]+)+`).FindAllString(string(text), -1) {
		if owner, _, _ := strings.Cut(m, "."); !named[owner] {
			continue // of another module
		}
		if checked++; !exists[m] {
			t.Errorf("docs/architecture.md speaks of %s, which does not exist", m)
		}
	}
	if checked < 20 {
		t.Errorf("only %d names were found: the test does not look where it should", checked)
	}
}

// What docs/testing.md names is there, and all fuzz targets are named.
func TestTestingNamesRealTests(t *testing.T) {
	exists := map[string]bool{}
	for f := range files(t) {
		for _, decl := range f.syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && (f.test || f.pkg.Name == "check") {
				exists[d.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(?:check\\.)?((?:Test|Fuzz)?[A-Z][A-Za-z]+)`").FindAllStringSubmatch(string(text), -1) {
		if named[m[1]] = true; !exists[m[1]] {
			t.Errorf("docs/testing.md speaks of %s, which does not exist", m[1])
		}
	}
	for name := range exists {
		if strings.HasPrefix(name, "Fuzz") && !named[name] {
			t.Errorf("docs/testing.md does not speak of %s", name)
		}
	}
	if len(named) < 40 {
		t.Errorf("only %d names were found: the test does not look where it should", len(named))
	}
}

// receiver returns the type of a method with a dot, or nothing.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}
