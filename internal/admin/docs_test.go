package admin

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// section returns the section of a document with the heading.
func section(t *testing.T, name, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/" + name)
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %s", name, heading)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

// rows returns the cells of a table.
func rows(part string) (all [][]string) {
	for l := range strings.Lines(part) {
		if strings.HasPrefix(l, "| `") {
			cells := strings.Split(strings.Trim(strings.TrimSpace(l), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	return all
}

var word = regexp.MustCompile("`([^`]+)`")

func words(cell string) []string {
	found := []string{}
	for _, m := range word.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}

// docs/reference/http.md lists exactly the paths that are served.
func TestPathsAreDocumented(t *testing.T) {
	text, err := describe(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			Parameters  []struct{ Name, In string }
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	served := map[string][]string{}
	for path, methods := range document.Paths {
		parts := []string{}
		for _, m := range inBraces.FindAllStringSubmatch(path, -1) {
			parts = append(parts, m[1])
		}
		for method, operation := range methods {
			name := operation.OperationID[strings.Index(operation.OperationID, "_")+1:]
			parameters, inPath := []string{}, []string{}
			for _, p := range operation.Parameters {
				switch p.In {
				case "query":
					parameters = append(parameters, p.Name)
				case "path":
					inPath = append(inPath, p.Name)
				}
			}
			if !slices.Equal(parts, inPath) {
				t.Errorf("%s %s: the path parameters are %q", method, path, inPath)
			}
			served[strings.ToUpper(method)+" "+path+" "+name] = parameters
		}
	}
	documented := map[string][]string{}
	for _, row := range rows(section(t, "http.md", "Paths")) {
		method, _, _ := strings.Cut(row[1], ";")
		documented[words(row[0])[0]+" "+method] = words(row[2])
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("-docs/reference/http.md +OpenAPI:\n%s", diff)
	}
}

// No two paths differ only in the names of their parameters.
func TestPathsAreDistinct(t *testing.T) {
	text, err := describe(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Paths map[string]any }
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for path := range document.Paths {
		shape := inBraces.ReplaceAllString(path, "{}")
		if other, ok := seen[shape]; ok {
			t.Errorf("%s and %s are the same path", path, other)
		}
		seen[shape] = path
	}
}

// Each reason of docs/reference/errors.md has the HTTP status that docs/reference/http.md documents.
func TestStatusesAreDocumented(t *testing.T) {
	served := map[string]string{}
	for _, row := range rows(section(t, "errors.md", "Reasons")) {
		reason := words(row[0])[0]
		st, err := status.New(codes.Code(code.Code_value[words(row[1])[0]]), "").WithDetails(&errdetails.ErrorInfo{Domain: "fanoutd.github.io", Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		served[reason] = strconv.Itoa(httpStatus(st))
	}
	documented := map[string]string{}
	for _, row := range rows(section(t, "http.md", "Errors")) {
		documented[words(row[0])[0]] = row[1]
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("-docs/reference/http.md +served:\n%s", diff)
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		if _, ok := served[reason]; !ok {
			t.Errorf("unknown reason %s", reason)
		}
	}
}

// docs/reference/http.md lists the errors that only HTTP has.
func TestRefusalsAreDocumented(t *testing.T) {
	served := map[string][]string{}
	for httpStatus, r := range refusals {
		served[r.reason] = []string{strconv.Itoa(httpStatus), code.Code(r.code).String()}
		if _, ok := byReason[r.reason]; ok {
			t.Errorf("%s is also a reason of the gRPC server", r.reason)
		}
	}
	documented := map[string][]string{}
	for _, row := range rows(section(t, "http.md", "Errors that only HTTP has")) {
		documented[words(row[0])[0]] = []string{row[1], words(row[2])[0]}
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("-docs/reference/http.md +served:\n%s", diff)
	}
}
