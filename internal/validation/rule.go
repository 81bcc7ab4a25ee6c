package validation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// The limits of a rule. The text is limited by convention. cel-go checks the types of nested lists, maps and loops
// in a time that grows with the fourth power of their depth: a rule of 3 KB takes a minute.
const (
	maxRuleBytes = 10_000
	maxNested    = 64
)

// rule is a compiled rule in CEL.
type rule struct {
	text, message string
	line          int    // in the validation file
	pointer       string // of the member that violations name; empty: the value
	deletes       bool   // it applies to deletes as well
	readsOld      bool   // it may use the object that the write replaces
	program       cel.Program
}

// The variables of rules.
const (
	varSelf      = "self"
	varOldSelf   = "oldSelf"
	varKey       = "key"
	varLabels    = "labels"
	varOldLabels = "oldLabels"
	varIdentity  = "identity"
)

// environment has the variables and functions of rules. It has the standard functions of CEL only: those of
// cel-go's extensions, such as replace, cost what they are not charged for.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	labels := cel.MapType(cel.StringType, cel.StringType)
	return cel.NewEnv(
		cel.Variable(varSelf, cel.DynType), cel.Variable(varOldSelf, cel.DynType),
		cel.Variable(varKey, cel.StringType),
		cel.Variable(varLabels, labels), cel.Variable(varOldLabels, labels),
		cel.Variable(varIdentity, cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxRuleBytes),
	)
})

// compileRule compiles the text of a rule for values that a schema allows; nil: any.
func compileRule(text string, values *schema) (cel.Program, error) {
	if len(text) > maxRuleBytes {
		return nil, fmt.Errorf("has %d bytes, the limit is %d", len(text), maxRuleBytes)
	}
	env, err := environment()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(text)
	if issues != nil && issues.Err() != nil {
		return nil, firstOf(issues)
	}
	if n := countNested(parsed); n > maxNested {
		return nil, fmt.Errorf("has %d lists, maps and loops, where map() and filter() count three times; the limit is %d", n, maxNested)
	}
	if name, advice, found := unknownMember(parsed, values); found {
		return nil, fmt.Errorf("reads self.%s, which the schema does not allow%s", clip(name, maxGivenBytes), clip(advice, maxMessageBytes))
	}
	checked, issues := env.Check(parsed)
	if issues != nil && issues.Err() != nil {
		return nil, firstOf(issues)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("must be true or false, is of type %s", t)
	}
	// cel-go limits neither the size of a pattern's program nor the time of a match.
	if len(ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.FunctionMatcher(matchesFunction))) > 0 {
		return nil, errors.New("matches() is not available, because its cost is not bounded; use pattern in the schema")
	}
	return env.Program(checked, bounded()...)
}

const matchesFunction = "matches"

// countNested returns the number of lists, maps and loops in a rule. Types are not nested deeper.
func countNested(parsed *cel.Ast) int {
	return len(ast.MatchDescendants(ast.NavigateAST(parsed.NativeRep()), func(e ast.NavigableExpr) bool {
		return e.Kind() == ast.ListKind || e.Kind() == ast.MapKind || e.Kind() == ast.ComprehensionKind
	}))
}

// unknownMember returns a member of self that a rule reads, but that the schema of self does not allow, and advice.
func unknownMember(parsed *cel.Ast, values *schema) (name, advice string, found bool) {
	if values == nil || values.root.AdditionalProperties != false {
		return "", "", false
	}
	root := ast.NavigateAST(parsed.NativeRep())
	hidesSelf := func(e ast.NavigableExpr) bool {
		if e.Kind() != ast.ComprehensionKind {
			return false
		}
		loop := e.AsComprehension()
		return loop.IterVar() == varSelf || loop.IterVar2() == varSelf
	}
	if len(ast.MatchDescendants(root, hidesSelf)) > 0 {
		return "", "", false // self may be an item
	}
	ast.MatchDescendants(root, func(e ast.NavigableExpr) bool {
		if member, ok := memberOfSelf(e); ok && !found && !values.allows(member) {
			name, found = member, true
		}
		return false
	})
	return name, yamlfile.Suggest(name, slices.Sorted(maps.Keys(values.root.Properties))), found
}

// memberOfSelf returns the name of the member that self.NAME, has(self.NAME) or self["NAME"] reads.
func memberOfSelf(e ast.Expr) (name string, ok bool) {
	isSelf := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == varSelf }
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().FieldName(), isSelf(e.AsSelect().Operand())
	case ast.CallKind:
		args := e.AsCall().Args()
		if e.AsCall().FunctionName() == operators.Index && isSelf(args[0]) && args[1].Kind() == ast.LiteralKind {
			name, ok = args[1].AsLiteral().Value().(string)
			return name, ok
		}
	}
	return "", false
}

// firstOf returns the first issue of a rule as an error.
func firstOf(issues *cel.Issues) error {
	first := issues.Errors()[0]
	return fmt.Errorf("line %d, column %d: %s", max(first.Location.Line(), 1), first.Location.Column()+1, clip(strings.ReplaceAll(first.Message, "\n", " "), maxMessageBytes))
}

// readsOld reports whether a rule may use the object that a write replaces. A variable is used only where its
// name is written.
func readsOld(text string) bool {
	return strings.Contains(text, varOldSelf) || strings.Contains(text, varOldLabels)
}

// variables are the values of the variables of rules for one write. They implement cel.Activation, so that
// none is computed before a rule uses it.
type variables struct {
	write           *Write
	identity        map[string]any
	oldSelf         any
	oldSelfIsParsed bool
}

// readOld parses the old value. It refuses the write if that is not possible, because a rule that takes the
// object for a new one would allow what it should not.
func (v *variables) readOld(found *Violations) bool {
	if v.oldSelfIsParsed {
		return true
	}
	reason := "it has no JSON form that keeps all of it"
	if !v.write.OldHidden {
		var fault *fault
		if v.write.Old != nil {
			v.oldSelf, fault = v.write.Old.parse()
		}
		if v.oldSelfIsParsed = fault == nil; v.oldSelfIsParsed {
			return true
		}
		reason = strings.TrimSpace(clip(fault.pointer(), maxGivenBytes) + " " + fault.reason)
	}
	found.add(nil, "cannot be checked, because rules compare it with the object that it replaces, which they cannot read: %s", reason)
	return false
}

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case varSelf:
		return celValue(v.write.self), true
	case varOldSelf:
		return celValue(v.oldSelf), true
	case varKey:
		return string(v.write.Key), true
	case varLabels:
		return labelsOf(v.write.New), true
	case varOldLabels:
		return labelsOf(v.write.Old), true
	case varIdentity:
		if v.identity == nil {
			v.identity = v.write.Identity.variable()
		}
		return v.identity, true
	}
	return nil, false
}

func labelsOf(o *Object) map[string]string {
	if o == nil {
		return nil
	}
	return o.Labels
}

// Parent implements cel.Activation.
func (*variables) Parent() cel.Activation { return nil }

func celValue(value any) any {
	if value == nil {
		return types.NullValue
	}
	return value
}

// check evaluates the rule.
func (r *rule) check(b *Budget, v *variables, found *Violations) {
	result, details, err := r.program.ContextEval(b.ctx, v)
	if cost := details.ActualCost(); cost != nil {
		b.cost += *cost
	} else {
		b.cost += maxRuleCost
	}
	switch {
	case err != nil && b.ended(found):
	case err != nil:
		found.at("", "%s", r.unevaluated(plainCELError(err)))
	case result == types.False:
		is := ""
		if r.pointer != "" {
			if value, ok := lookup(v.write.self, r.pointer); ok {
				is = ", is " + given(value)
			}
		}
		found.at(r.pointer, "%s%s", r.message, is)
	case result != types.True:
		found.at("", "%s", r.unevaluated("its result is of type "+result.Type().TypeName()+", not bool"))
	}
}

// unevaluated says that the rule could not be evaluated, and why. The writer may have done nothing wrong: so it does
// not name the member that the rule is about, and says what the author of the rule can change.
func (r *rule) unevaluated(reason string) string {
	advice := ""
	switch {
	case strings.HasPrefix(reason, "no such key"):
		advice = " (add it to the value, or let the rule test for it with has())"
	case strings.HasPrefix(reason, "no such overload"):
		advice = " (a value has another type than the rule expects)"
	case strings.Contains(reason, "cost limit exceeded"):
		advice = " (make the value smaller, or the rule simpler)"
	}
	return fmt.Sprintf("cannot be checked: the rule %q (line %d: %s) cannot be evaluated: %s%s",
		clip(r.message, maxGivenBytes), r.line, clip(r.text, maxGivenBytes), clip(reason, maxGivenBytes), advice)
}

// plainCELError returns the text of an error on one line.
func plainCELError(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
