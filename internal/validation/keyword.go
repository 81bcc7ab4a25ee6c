package validation

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// draft is a version of JSON Schema.
type draft int

const (
	draft4 draft = iota
	draft6
	draft7
	draft2019
	draft2020
)

// draftNames are in the order of the drafts, as in their URLs.
var draftNames = []string{"draft-04", "draft-06", "draft-07", "2019-09", "2020-12"}

// keyword is what a keyword of JSON Schema contains, and the drafts in which the library uses it.
type keyword struct {
	contains    content
	first, last draft
}

type content int

const (
	noSchemas    content = iota
	schemas              // a schema or a list of them
	namedSchemas         // a mapping of them
)

// keywords are those of all drafts. An annotation has no effect anyway, so every draft may have it.
var keywords = func() map[string]keyword {
	all := map[string]keyword{}
	add := func(contains content, first, last draft, names string) {
		for name := range strings.FieldsSeq(names) {
			all[name] = keyword{contains, first, last}
		}
	}
	add(noSchemas, draft4, draft2020, `$schema $ref type enum multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength
		minLength pattern maxItems minItems uniqueItems maxProperties minProperties required format title description default
		examples $comment readOnly writeOnly deprecated contentEncoding contentMediaType`)
	add(schemas, draft4, draft2020, "allOf anyOf oneOf not additionalProperties items contentSchema")
	add(namedSchemas, draft4, draft2020, "properties patternProperties definitions $defs dependencies")
	add(noSchemas, draft4, draft4, "id")
	add(schemas, draft4, draft2019, "additionalItems")
	add(noSchemas, draft6, draft2020, "$id const")
	add(schemas, draft6, draft2020, "contains propertyNames")
	add(schemas, draft7, draft2020, "if then else")
	add(noSchemas, draft2019, draft2020, "$anchor $vocabulary $recursiveRef $recursiveAnchor dependentRequired minContains maxContains")
	add(schemas, draft2019, draft2020, "unevaluatedItems unevaluatedProperties")
	add(namedSchemas, draft2019, draft2020, "dependentSchemas")
	add(noSchemas, draft2020, draft2020, "$dynamicRef $dynamicAnchor")
	add(schemas, draft2020, draft2020, "prefixItems")
	return all
}()

// annotation begins the names of members of a schema that are no keywords.
const annotation = "x-"

// keywordCheck refuses keywords that have no effect: the author of a misspelt one would believe that it checks.
type keywordCheck struct {
	file    *yamlfile.File
	root    *yaml.Node
	seen    map[*yaml.Node]bool
	refused int
}

// refuseUnknownKeywords adds the unknown keywords of a schema to the problems of its file, up to a limit.
func refuseUnknownKeywords(file *yamlfile.File, schema *yaml.Node) {
	c := keywordCheck{file: file, root: schema, seen: map[*yaml.Node]bool{}}
	c.schema(schema, draft2020)
}

// schema checks a schema, or each of a list of them.
func (c *keywordCheck) schema(n *yaml.Node, in draft) {
	if c.seen[n] {
		return
	}
	c.seen[n] = true
	switch n.Kind {
	case yaml.SequenceNode:
		for _, one := range n.Content {
			c.schema(one, in)
		}
	case yaml.MappingNode:
		in = c.draft(n, in)
		for member := range slices.Chunk(n.Content, 2) {
			if c.refused < MaxViolations {
				c.member(member[0], member[1], in)
			}
		}
	}
}

// member checks a member of a schema.
func (c *keywordCheck) member(name, value *yaml.Node, in draft) {
	k, ok := keywords[name.Value]
	switch {
	case name.ShortTag() == "!!merge":
		c.schema(value, in)
	case !ok && strings.HasPrefix(name.Value, annotation):
	case !ok:
		advice := yamlfile.Suggest(name.Value, slices.Sorted(maps.Keys(keywords)))
		if advice == "" {
			advice = "; the name of an annotation begins with " + annotation
		}
		c.refuse(name, "unknown keyword %q%s", clip(name.Value, maxGivenBytes), advice)
	case in < k.first || in > k.last:
		c.refuse(name, "the keyword %q has no effect in %s", name.Value, draftNames[in])
	case k.contains == schemas:
		c.schema(value, in)
	case k.contains == namedSchemas && value.Kind == yaml.MappingNode:
		for named := range slices.Chunk(value.Content, 2) {
			c.schema(named[1], in)
		}
	case name.Value == "$ref":
		// A schema may be where none is expected, such as in an annotation.
		if pointer, ok := strings.CutPrefix(value.Value, "#"); ok && strings.HasPrefix(pointer, "/") {
			if at, rest := nodeAt(c.root, pathOf(pointer)); len(rest) == 0 {
				c.schema(at, in)
			}
		}
	}
}

func (c *keywordCheck) refuse(n *yaml.Node, format string, args ...any) {
	c.file.Refuse(n, format, args...)
	c.refused++
}

// draft returns the draft of a schema: it names its own, or has that of the schema around it.
func (c *keywordCheck) draft(n *yaml.Node, outer draft) draft {
	url := yamlfile.Child(n, "$schema")
	if url == nil || n != c.root && yamlfile.Child(n, "$id") == nil {
		return outer
	}
	for i, name := range draftNames {
		if strings.HasSuffix(strings.TrimSuffix(url.Value, "#"), "/"+name+"/schema") {
			return draft(i)
		}
	}
	return outer
}

// nodeAt returns the node at a path, or the nearest above it with the rest of the path.
func nodeAt(n *yaml.Node, path []string) (at *yaml.Node, rest []string) {
	for i, name := range path {
		below := yamlfile.Child(n, name)
		if below == nil {
			return n, path[i:]
		}
		n = below
	}
	return n, nil
}
