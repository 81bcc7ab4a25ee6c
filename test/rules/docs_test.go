package rules

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// architecture lists the pages about the parts of the server.
var architecture = []string{"architecture.md", "watches.md", "store.md", "subscribe.md", "validation.md"}

// readArchitecture returns these pages, one after another.
func readArchitecture(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range architecture {
		text, err := os.ReadFile(filepath.Join(root, "docs", "dev", name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestArchitectureNamesRealThings checks that every package.Name in the pages about the architecture exists.
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
					switch s := spec.(type) {
					case *ast.TypeSpec:
						exists[name+"."+s.Name.Name] = true
						named[s.Name.Name] = true
						for _, field := range fieldsOf(s.Type) {
							exists[s.Name.Name+"."+field] = true
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							exists[name+"."+n.Name] = true
						}
					}
				}
			}
		}
	}
	checked := 0
	for _, m := range regexp.MustCompile(`[A-Za-z]+(\.[A-Z][A-Za-z]+)+`).FindAllString(readArchitecture(t), -1) {
		if owner, _, _ := strings.Cut(m, "."); !named[owner] {
			continue // from another module
		}
		if checked++; !exists[m] {
			t.Errorf("docs/dev names %s, which does not exist", m)
		}
	}
	if checked < 20 {
		t.Errorf("found only %d names", checked)
	}
}

// fieldsOf returns the names of the fields of a struct, or nil.
func fieldsOf(t ast.Expr) (names []string) {
	s, ok := t.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// states are the first values of the variables that docs/dev/watches.md relates, and the prefix that the page
// leaves out.
var states = map[string]string{"NotAdmitted": "", "watchGoesOn": "watch", "cursorSettles": "cursor", "StepSnapshot": "", "beginReset": ""}

// TestStatesOfAWatchAreRelated checks that the page names each state that a watch may have.
func TestStatesOfAWatchAreRelated(t *testing.T) {
	_, page, _ := strings.Cut(readArchitecture(t), "\n## The states of a watch\n")
	page, _, _ = strings.Cut(page, "\n## ")
	found := 0
	for f := range files(t) {
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				continue
			}
			prefix, ok := states[d.Specs[0].(*ast.ValueSpec).Names[0].Name]
			if !ok {
				continue
			}
			found++
			for _, spec := range d.Specs {
				name := strings.TrimPrefix(spec.(*ast.ValueSpec).Names[0].Name, prefix)
				if !regexp.MustCompile(`\b` + name + `\b`).MatchString(page) {
					t.Errorf("docs/dev/watches.md does not name the state %s", name)
				}
			}
		}
	}
	if found != len(states) {
		t.Errorf("found the states of %d variables, want %d", found, len(states))
	}
}

// TestArchitectureNamesRealFiles checks that every file in the pages about the architecture exists.
func TestArchitectureNamesRealFiles(t *testing.T) {
	found := regexp.MustCompile("`((?:client|cmd|docs|internal|proto|test)/[a-z0-9_./]+)`").FindAllStringSubmatch(readArchitecture(t), -1)
	if len(found) < 50 {
		t.Errorf("found only %d files and folders", len(found))
	}
	for _, m := range found {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("docs/dev names %s: %v", m[1], err)
		}
	}
}

// TestConceptsAreFew checks that a reader can learn the concepts of the watch path in one sitting.
func TestConceptsAreFew(t *testing.T) {
	_, table, found := strings.Cut(readArchitecture(t), "\n## Concepts of the watch path\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| [A-Za-z].*\|$`).FindAllString(table, -1)
	if n := len(rows) - 1; !found || n < 20 || n > 30 { // without the head of the table
		t.Errorf("got %d concepts, want at most 30", n)
	}
}

// TestTestingNamesRealTests checks that every test in docs/dev/testing.md exists, and that the
// page names every fuzz target.
func TestTestingNamesRealTests(t *testing.T) {
	exists := map[string]bool{}
	for f := range files(t) {
		for _, decl := range f.syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && (f.test || f.pkg.Name == "check") {
				exists[d.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "dev", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(?:check\\.)?((?:Test|Fuzz)?[A-Z][A-Za-z]+)`").FindAllStringSubmatch(string(text), -1) {
		if named[m[1]] = true; !exists[m[1]] {
			t.Errorf("docs/dev/testing.md names %s, which does not exist", m[1])
		}
	}
	for name := range exists {
		if strings.HasPrefix(name, "Fuzz") && !named[name] {
			t.Errorf("docs/dev/testing.md does not name %s", name)
		}
	}
	if len(named) < 40 {
		t.Errorf("found only %d names", len(named))
	}
}

// receiver returns the type of a method followed by a dot, or "".
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
