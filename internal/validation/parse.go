package validation

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// The limits of a validation file. They are conventions, far above real files.
const (
	maxFileBytes = 1 << 20
	maxRules     = 1000
)

// SchemaFiles returns the paths of the schema files that a validation file names, each once and in their
// order there. It ignores what [Parse] refuses.
func SchemaFiles(file string, content []byte) (paths []string) {
	if len(content) > maxFileBytes {
		return nil
	}
	f := yamlfile.OpenPlain(file, content)
	var fields struct {
		Checks []struct {
			Schema yaml.Node `yaml:"schema"`
		} `yaml:"checks"`
	}
	if f.Root == nil || f.Root.Load(&fields) != nil {
		return nil
	}
	for _, c := range fields.Checks {
		if path, ok := schemaFile(file, &c.Schema); ok && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// schemaFile returns the path of the file that a schema names. It is in the directory of the validation file.
func schemaFile(file string, schema *yaml.Node) (path string, ok bool) {
	if schema.Kind != yaml.ScalarNode || schema.ShortTag() != "!!str" || !filepath.IsLocal(schema.Value) {
		return "", false
	}
	return filepath.Join(filepath.Dir(file), schema.Value), true
}

// Parse compiles a validation file. Its name is used in errors and for the paths of schema files. Contents are
// the content of the file, and those of its [SchemaFiles]. The error is of type [yamlfile.Problems].
func Parse(file string, contents [][]byte) (*Set, error) {
	r := reader{File: open(file, contents[0], maxFileBytes), name: file, schemas: map[string]*schema{}}
	if r.Root == nil {
		if r.Err() == nil {
			// A file that is still being written must not pass for one that checks nothing.
			r.Refuse(nil, `is empty; write "checks: []" to check nothing`)
		}
		return nil, r.Err()
	}
	for i, path := range SchemaFiles(file, contents[0]) {
		if i+1 < len(contents) {
			r.schemaFile(path, contents[i+1])
		}
	}
	r.body()
	if err := r.Err(); err != nil {
		return nil, err
	}
	return &Set{checks: r.checks, hash: hashOf(contents)}, nil
}

// open parses a file, if it is not too long.
func open(name string, content []byte, limit int) *yamlfile.File {
	if len(content) <= limit {
		return yamlfile.OpenPlain(name, content)
	}
	f := yamlfile.OpenPlain(name, nil)
	f.Refuse(nil, "has %d bytes, the limit is %d", len(content), limit)
	return f
}

// hashOf returns the hash of files.
func hashOf(contents [][]byte) string {
	sum := sha256.New()
	for _, content := range contents {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(content))))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// reader turns a file into checks.
type reader struct {
	*yamlfile.File
	name    string
	schemas map[string]*schema // by path
	checks  []check
	rules   int
}

// schemaFile compiles a schema file.
func (r *reader) schemaFile(path string, content []byte) {
	f := open(path, content, maxSchemaBytes)
	if f.Root == nil {
		if f.Err() == nil {
			f.Refuse(nil, "is empty")
		}
		r.Refuse(nil, "schema %v", f.Err())
		return
	}
	r.schemas[path] = compileIn(f, f.Root, "")
	if problems, ok := errors.AsType[yamlfile.Problems](f.Err()); ok {
		for _, p := range problems {
			r.Refuse(nil, "schema %v", p)
		}
	}
}

func (r *reader) body() {
	var fields struct {
		Checks []yaml.Node `yaml:"checks"`
	}
	if r.Decode(r.Root, &fields) && fields.Checks == nil {
		r.Refuse(r.Root, `"checks" is missing`)
	}
	for i := range fields.Checks {
		r.check(&fields.Checks[i])
	}
	if r.rules > maxRules {
		r.Refuse(nil, "has %d rules, the limit is %d", r.rules, maxRules)
	}
}

func (r *reader) check(n *yaml.Node) {
	var fields struct {
		Keys   []yaml.Node `yaml:"keys"`
		Schema yaml.Node   `yaml:"schema"`
		Rules  []yaml.Node `yaml:"rules"`
	}
	if !r.Decode(n, &fields) {
		return
	}
	c := check{}
	if fields.Keys != nil && len(fields.Keys) == 0 {
		r.Refuse(n, "keys must not be an empty list; leave it out to check all keys")
	}
	for i := range fields.Keys {
		var text string
		if !r.Decode(&fields.Keys[i], &text) {
			continue
		}
		pattern, err := parseKeyPattern(text)
		if err != nil {
			r.Refuse(&fields.Keys[i], "%v", err)
		}
		c.keys = append(c.keys, pattern)
	}
	if fields.Schema.IsZero() && len(fields.Rules) == 0 {
		r.Refuse(n, "has neither a schema nor rules")
	}
	if !fields.Schema.IsZero() {
		c.schema = r.schema(&fields.Schema)
	}
	for i := range fields.Rules {
		c.rules = append(c.rules, r.rule(&fields.Rules[i], c.schema))
	}
	r.rules += len(c.rules)
	r.checks = append(r.checks, c)
}

// schema compiles a schema in the file, or returns the one of the file that it names.
func (r *reader) schema(n *yaml.Node) *schema {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		path, ok := schemaFile(r.name, n)
		if !ok {
			r.Refuse(n, "%q must be a file in the directory of this one, or below it", n.Value)
			return nil
		}
		return r.schemas[path]
	}
	return compileIn(r.File, n, "schema: ")
}

// compileIn compiles a schema in a file, and adds its faults to the problems of the file.
func compileIn(file *yamlfile.File, n *yaml.Node, prefix string) *schema {
	var document any
	if err := n.Load(&document); err != nil {
		file.Refuse(n, "%s%v", prefix, err)
		return nil
	}
	refuseUnknownKeywords(file, n)
	compiled, err := compileSchema(document)
	if wrong, ok := errors.AsType[malformed](err); ok {
		for _, one := range wrong {
			at, _ := nodeAt(n, one.path)
			file.Refuse(at, "%s%v", prefix, one)
		}
	} else if err != nil {
		file.Refuse(n, "%s%v", prefix, err)
	}
	return compiled
}

// rule compiles a rule for values that a schema allows; nil: any.
func (r *reader) rule(n *yaml.Node, values *schema) rule {
	var fields struct {
		Rule    string `yaml:"rule"`
		Message string `yaml:"message"`
		Path    string `yaml:"path"`
		Deletes bool   `yaml:"deletes"`
	}
	if !r.Decode(n, &fields) {
		return rule{}
	}
	one := rule{text: fields.Rule, message: fields.Message, line: n.Line, pointer: fields.Path, deletes: fields.Deletes, readsOld: readsOld(fields.Rule)}
	for _, field := range []struct{ name, value string }{{"rule", fields.Rule}, {"message", fields.Message}} {
		if strings.TrimSpace(field.value) == "" {
			r.Refuse(n, "%q is missing", field.name)
			return one
		}
	}
	if len(fields.Message) > maxMessageBytes {
		r.Refuse(n, "message has %d bytes, the limit is %d", len(fields.Message), maxMessageBytes)
	}
	if fields.Path != "" && !strings.HasPrefix(fields.Path, "/") {
		r.Refuse(n, "path %q must be a JSON pointer, such as /limits/rps", fields.Path)
	}
	var err error
	if one.program, err = compileRule(fields.Rule, values); err != nil {
		r.Refuse(n, "rule: %v", err)
	}
	return one
}

// String describes the set for logs.
func (s *Set) String() string { return fmt.Sprintf("%d checks, hash %s", len(s.checks), s.hash) }
