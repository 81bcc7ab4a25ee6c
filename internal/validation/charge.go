package validation

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// bounded returns the options that bound the cost of an evaluation.
//
// cel-go charges an operation after it, and takes one unit for a comparison, however large the operands are. A
// rule can make them large: with a list of 40 times a in it, [self].map(a, [a, a, ...]), repeated seven times, is
// a list of a few kilobytes that stands for 40^7 values, because its parts are shared. So comparisons and the
// concatenation of lists are charged before they are made, for each value that they may look at.
func bounded() []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(maxRuleCost), cel.CostTracking(charges{}), cel.InterruptCheckFrequency(1),
		cel.CustomDecoratorV2(chargeFirst),
	}
}

// chargeFirst replaces the operations that look inside of their operands.
func chargeFirst(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	switch call.Function() {
	case operators.Equals, operators.NotEquals, operators.In, operators.Add:
		return &charged{call}, nil
	}
	return i, nil
}

// charged is an operation that is charged before it is made.
type charged struct {
	interpreter.InterpretableCall
}

// Exec implements interpreter.InterpretableV2. The cost tracker ends the evaluation if the limit is passed.
func (c *charged) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	a := c.Args()[0].Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	b := c.Args()[1].Exec(frame)
	if types.IsUnknownOrError(b) {
		return b
	}
	if costs := frame.CostTracker(); costs != nil {
		costs.EvalBinary(frame, c.ID(), c, a, b, nil)
	}
	switch c.Function() {
	case operators.Equals:
		return types.Equal(a, b)
	case operators.NotEquals:
		return types.Bool(types.Equal(a, b) != types.True)
	case operators.In:
		if in, ok := b.(traits.Container); ok {
			return in.Contains(a)
		}
		return types.MaybeNoSuchOverloadErr(b)
	}
	return add(a, b)
}

// Eval implements interpreter.Interpretable.
func (c *charged) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// add returns the sum of two values. That of lists is a copy: cel-go's has a reference to each of them, and takes
// a step for every list inside of it to find an element.
func add(a, b ref.Val) ref.Val {
	first, second, ok := twoLists(a, b)
	if _, grows := a.(traits.MutableLister); !ok || grows {
		adder, ok := a.(traits.Adder)
		if !ok {
			return types.MaybeNoSuchOverloadErr(a)
		}
		return adder.Add(b)
	}
	items := make([]ref.Val, 0, size(first)+size(second))
	for _, list := range []traits.Lister{first, second} {
		for i := range size(list) {
			items = append(items, list.Get(types.Int(i)))
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, items)
}

func twoLists(a, b ref.Val) (first, second traits.Lister, ok bool) {
	first, isList := a.(traits.Lister)
	second, ok = b.(traits.Lister)
	return first, second, ok && isList
}

func size(of traits.Sizer) uint64 {
	n, _ := of.Size().(types.Int)
	return uint64(max(n, 0))
}

// charges is what operations cost, where that differs from what cel-go takes for them.
type charges struct{}

// CallCost implements cost.ActualCostEstimator.
func (charges) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	switch {
	case len(args) == 1 && (function == overloads.Size || overloads.IsTypeConversionFunction(function)):
		return new(costOfText(args[0])) // characters are counted, and texts are parsed or copied
	case len(args) != 2:
		return nil
	}
	a, b := args[0], args[1]
	switch function {
	case operators.Equals, operators.NotEquals:
		x, isSized := a.(traits.Sizer)
		if y, ok := b.(traits.Sizer); ok && isSized && isText(a) == isText(b) && (isText(a) || x.Size() == y.Size()) {
			return new(costOf(a, maxRuleCost))
		}
	case operators.In:
		if _, ok := b.(traits.Lister); ok {
			return new(costOf(b, maxRuleCost))
		}
	case operators.Add:
		if x, y, ok := twoLists(a, b); ok {
			cost := 1 + size(y)
			if _, grows := a.(traits.MutableLister); !grows {
				cost += size(x)
			}
			return &cost
		}
	}
	return nil // what cel-go charges
}

func isText(value ref.Val) bool {
	switch value.(type) {
	case types.String, types.Bytes:
		return true
	}
	return false
}

// bytesPerUnit is how many bytes of text cost one unit, as in cel-go.
const bytesPerUnit = 10

func costOfText(value ref.Val) uint64 {
	switch v := value.(type) {
	case types.String:
		return 1 + uint64(len(v)/bytesPerUnit)
	case types.Bytes:
		return 1 + uint64(len(v)/bytesPerUnit)
	}
	return 1
}

// The cost of a value inside of one that a rule has made. Walking through such a list or map takes much longer
// than through that of a document, which takes one unit.
const (
	costOfItem  = 4
	costOfEntry = 8
)

// costOf returns the cost of looking at all values inside of a value, and one unit more for each ten bytes of
// text. A part that is shared counts each time. It stops soon after it has passed the limit.
func costOf(value any, limit uint64) (cost uint64) {
	cost = 1
	switch v := value.(type) {
	case string:
		return cost + uint64(len(v)/bytesPerUnit)
	case []byte:
		return cost + uint64(len(v)/bytesPerUnit)
	case []any:
		for i := 0; i < len(v) && cost <= limit; i++ {
			cost += costOf(v[i], limit-cost)
		}
	case map[string]any:
		for _, child := range v {
			if cost > limit {
				break
			}
			cost += costOf(child, limit-cost)
		}
	case ref.Val:
		switch native := v.Value().(type) {
		case string, []byte, []any, map[string]any:
			return costOf(native, limit)
		}
		iterable, ok := v.(traits.Iterable)
		if !ok {
			return cost
		}
		of, isMap := v.(traits.Mapper)
		for it := iterable.Iterator(); cost <= limit && it.HasNext() == types.True; {
			child := it.Next()
			cost += costOfItem
			if isMap {
				child = of.Get(child)
				cost += costOfEntry - costOfItem
			}
			cost += costOf(child, limit-min(cost, limit))
		}
	}
	return cost
}
