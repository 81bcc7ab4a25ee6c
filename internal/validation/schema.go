package validation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The limits of a schema and its patterns.
const (
	maxSchemaBytes      = 1 << 20
	maxPatternBytes     = 1000
	maxPatternProgram   = 5000 // instructions
	patternBytesPerStep = 32   // bytes times instructions
	formatBytesPerStep  = 16
	lookupsPerStep      = 8  // of members that must be there
	longUniqueArray     = 20 // items. The library compares shorter arrays pairwise, and hashes longer ones.
)

// schema is a compiled JSON Schema.
type schema struct {
	root *jsonschema.Schema

	// members are the names of the properties that an object may have, as text, by the location of its schema.
	members map[string]string
}

// schemaURL is the base of references in a schema. There is nothing else to load below it.
const schemaURL = "fanoutd://validation/schema"

// compileSchema compiles a document that was read from YAML or JSON.
func compileSchema(document any) (_ *schema, err error) {
	// The library parses numbers exactly, and panics for some that are too large.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be compiled: %v", r)
		}
	}()
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("has %d bytes, the limit is %d", len(text), maxSchemaBytes)
	}
	if _, fault := parseDocument(string(text)); fault != nil {
		return nil, errors.New(strings.TrimSpace(fault.pointer() + " " + fault.reason))
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(compilePattern)
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, plain); err != nil {
		return nil, err
	}
	root, err := c.Compile(schemaURL)
	if refused, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return nil, malformedOf(refused, plain)
	}
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(strings.ReplaceAll(err.Error(), schemaURL, ""), "\n", " "))
	}
	s := &schema{root: root, members: map[string]string{}}
	seen := map[*jsonschema.Schema]bool{}
	s.learn(root, seen)
	for one := range seen {
		if one.DynamicRef != nil || one.RecursiveRef != nil {
			return nil, errors.New("$dynamicRef and $recursiveRef are not supported, because the cost of a check would not be known in advance; use $ref")
		}
		if !strings.HasPrefix(one.Location, schemaURL) {
			return nil, fmt.Errorf("references to other documents are not allowed (%s), and the library has its own copies of some", one.Location)
		}
		if one.Format != nil && one.Format.Name == "regex" {
			one.Format = nil // a check would compile the value, which may take gigabytes
		}
		if one.PropertyNames != nil {
			one.Extensions = append(one.Extensions, memberNames{one.PropertyNames})
			one.PropertyNames = nil
		}
	}
	return s, nil
}

// memberNames is the keyword propertyNames. The library reports the place of such a fault in a slice that it goes on
// to use, so the place may be that of another object.
type memberNames struct{ schema *jsonschema.Schema }

// Validate implements jsonschema.SchemaExt.
func (m memberNames) Validate(ctx *jsonschema.ValidatorContext, value any) {
	object, _ := value.(map[string]any)
	for name := range object {
		if m.schema.Validate(name) != nil {
			ctx.AddError(&kind.PropertyNames{Property: name})
		}
	}
}

// memberNamesOf returns the schema of the names of members, or nil.
func memberNamesOf(s *jsonschema.Schema) *jsonschema.Schema {
	for _, extension := range s.Extensions {
		if m, ok := extension.(memberNames); ok {
			return m.schema
		}
	}
	return nil
}

// allows reports whether the root of a schema with additionalProperties: false allows a member.
func (s *schema) allows(member string) bool {
	if s.root.Properties[member] != nil {
		return true
	}
	for re := range s.root.PatternProperties {
		if re.MatchString(member) {
			return true
		}
	}
	return false
}

// noLoader refuses references to other documents: a server must not ask other hosts what it may store, nor
// read the files of its machine.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not allowed (%s); put the schema into $defs", url)
}

// pattern is a regular expression. Package regexp takes time proportional to the text times the size of the
// program.
type pattern struct {
	*regexp.Regexp
	instructions int
}

func compilePattern(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPatternBytes {
		return nil, fmt.Errorf("the pattern has %d bytes, the limit is %d", len(text), maxPatternBytes)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if n := len(program.Inst); n > maxPatternProgram {
		return nil, fmt.Errorf("the pattern is too complex: it has %d instructions, the limit is %d", n, maxPatternProgram)
	}
	return &pattern{compiled, len(program.Inst)}, nil
}

// learn notes the members that the schemas of objects allow.
func (s *schema) learn(of *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if of == nil || seen[of] {
		return
	}
	seen[of] = true
	if len(of.Properties) > 0 {
		s.members[of.Location] = clip(strings.Join(slices.Sorted(maps.Keys(of.Properties)), ", "), maxMessageBytes)
	}
	for child := range inPlace(of) {
		s.learn(child, seen)
	}
	for _, child := range of.Properties {
		s.learn(child, seen)
	}
	for _, child := range of.PatternProperties {
		s.learn(child, seen)
	}
	for _, child := range of.PrefixItems {
		s.learn(child, seen)
	}
	for _, child := range of.DependentSchemas {
		s.learn(child, seen)
	}
	for _, child := range of.Dependencies {
		if child, ok := child.(*jsonschema.Schema); ok {
			s.learn(child, seen)
		}
	}
	for _, child := range []any{of.AdditionalProperties, of.Items, of.AdditionalItems} {
		switch child := child.(type) {
		case *jsonschema.Schema:
			s.learn(child, seen)
		case []*jsonschema.Schema:
			for _, one := range child {
				s.learn(one, seen)
			}
		}
	}
	for _, child := range []*jsonschema.Schema{of.Items2020, of.Contains, of.PropertyNames, of.UnevaluatedProperties, of.UnevaluatedItems} {
		s.learn(child, seen)
	}
}

// inPlace returns the schemas that apply to the same value as a schema does, whatever the value is.
func inPlace(s *jsonschema.Schema) func(yield func(*jsonschema.Schema) bool) {
	return func(yield func(*jsonschema.Schema) bool) {
		for _, child := range []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else} {
			if child != nil && !yield(child) {
				return
			}
		}
		for _, several := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
			for _, child := range several {
				if !yield(child) {
					return
				}
			}
		}
	}
}

// affordable reports whether the budget has enough steps to check a value. The library cannot be interrupted,
// and a schema of a few lines can make it take years. So affordable takes the steps in advance: it walks
// through schema and value as the library does, without checking anything. Its result never depends on what
// is valid, so it counts all branches.
func (b *Budget) affordable(s *jsonschema.Schema, value any, depth int) bool {
	// In a cycle of references, which the library refuses, the depth grows without the value becoming smaller.
	if !b.spend(1) || depth > maxSteps/10 {
		return false
	}
	if s.Bool != nil {
		return true
	}
	for child := range inPlace(s) {
		if !b.affordable(child, value, depth+1) {
			return false
		}
	}
	if s.Enum != nil && !b.affordsEnum(s.Enum.Values, value) || s.Const != nil && !b.spendOn(value) {
		return false
	}
	switch v := value.(type) {
	case string:
		return b.affordsText(s, v)
	case map[string]any:
		return b.affordsObject(s, v, depth)
	case []any:
		return b.affordsArray(s, v, depth)
	case int64, uint64, float64:
		return b.affordsNumber(s)
	}
	return true
}

// affordsNumber takes a step for each bound, because numbers are compared as fractions.
func (b *Budget) affordsNumber(s *jsonschema.Schema) bool {
	for _, bound := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
		if bound != nil && !b.spend(1) {
			return false
		}
	}
	return true
}

// affordsEnum takes the steps of comparing a value with others: as many as the smaller of the two has values.
func (b *Budget) affordsEnum(allowed []any, value any) bool {
	before := b.steps
	if !b.spendOn(value) {
		return false
	}
	size := before - b.steps
	switch value.(type) {
	case map[string]any, []any:
	case string, bool, nil:
		return b.spend(len(allowed) / 4)
	default:
		return b.spend(len(allowed)) // numbers are compared as fractions
	}
	for _, one := range allowed {
		limit := min(size, b.steps)
		within := Budget{steps: limit}
		within.spendOn(one)
		b.spend(limit - max(within.steps, 0))
	}
	return true
}

func (b *Budget) affordsText(s *jsonschema.Schema, text string) bool {
	if s.Format != nil && !b.spend(len(text)/formatBytesPerStep) {
		return false
	}
	return s.Pattern == nil || b.matches(s.Pattern, text)
}

// matches takes the steps of matching a text.
func (b *Budget) matches(re jsonschema.Regexp, text string) bool {
	instructions := maxPatternProgram
	if p, ok := re.(*pattern); ok {
		instructions = p.instructions
	}
	return b.spend(len(text) * instructions / patternBytesPerStep)
}

func (b *Budget) affordsObject(s *jsonschema.Schema, object map[string]any, depth int) bool {
	lookups := len(s.Required) + len(s.DependentRequired) + len(s.DependentSchemas) + len(s.Dependencies)
	for name, names := range s.DependentRequired {
		if _, ok := object[name]; ok {
			lookups += len(names)
		}
	}
	for name, names := range s.Dependencies {
		names, _ := names.([]string)
		if _, ok := object[name]; ok {
			lookups += len(names)
		}
	}
	if !b.spend(lookups / lookupsPerStep) {
		return false
	}
	for name, child := range s.DependentSchemas {
		if _, ok := object[name]; ok && !b.affordable(child, object, depth+1) {
			return false
		}
	}
	for name, child := range s.Dependencies {
		child, isSchema := child.(*jsonschema.Schema)
		if _, ok := object[name]; ok && isSchema && !b.affordable(child, object, depth+1) {
			return false
		}
	}
	if s.UnevaluatedProperties != nil && !b.spend(len(object)) {
		return false // the library keeps a list of them
	}
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	names := memberNamesOf(s)
	for name, value := range object {
		children := []*jsonschema.Schema{s.Properties[name], s.UnevaluatedProperties}
		for re, child := range s.PatternProperties {
			if !b.matches(re, name) || !b.spend(1) {
				return false
			}
			if re.MatchString(name) {
				children = append(children, child)
			}
		}
		if children[0] == nil && len(children) == 2 {
			children = append(children, additional)
		}
		for _, child := range children {
			if child != nil && !b.affordable(child, value, depth+1) {
				return false
			}
		}
		if names != nil && !b.affordable(names, name, depth+1) {
			return false
		}
	}
	return true
}

func (b *Budget) affordsArray(s *jsonschema.Schema, items []any, depth int) bool {
	if s.UniqueItems {
		times := 1
		if len(items) <= longUniqueArray {
			times = len(items)
		}
		for range times {
			if !b.spendOn(items) {
				return false
			}
		}
	}
	if s.UnevaluatedItems != nil && !b.spend(len(items)) {
		return false
	}
	each := []*jsonschema.Schema{s.Contains, s.UnevaluatedItems, s.Items2020}
	for _, one := range []any{s.Items, s.AdditionalItems} {
		if one, ok := one.(*jsonschema.Schema); ok {
			each = append(each, one)
		}
	}
	tuple, _ := s.Items.([]*jsonschema.Schema)
	for i, item := range items {
		for _, child := range each {
			if child != nil && !b.affordable(child, item, depth+1) {
				return false
			}
		}
		for _, one := range [][]*jsonschema.Schema{s.PrefixItems, tuple} {
			if i < len(one) && !b.affordable(one[i], item, depth+1) {
				return false
			}
		}
	}
	return true
}

// check reports the faults of a value.
func (s *schema) check(b *Budget, value any, found *Violations) {
	defer func() {
		if r := recover(); r != nil {
			found.add(nil, "cannot be checked: the schema and the value make the checker fail: %v", r)
		}
	}()
	others := max(0, b.steps-maxSteps) // left for the other operations
	b.steps -= others
	affordable := b.affordable(s.root, value, 0)
	b.steps += others
	switch {
	case affordable:
	case b.operations > 1 && others == 0:
		found.add(nil, "takes too long to check with the other values of the transaction (more than %d steps): write fewer at once, make the values smaller or the schema simpler", maxSteps*b.operations)
		return
	default:
		found.add(nil, "takes too long to check against its schema (more than %d steps): make the value smaller or the schema simpler", maxSteps)
		return
	}
	if refused, ok := errors.AsType[*jsonschema.ValidationError](s.root.Validate(value)); ok {
		s.collect(refused, value, found)
	}
}
