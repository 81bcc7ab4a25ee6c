package validation

import (
	"context"
	"time"
)

// The limits of what the checks of one request cost. docs/dev/validation.md has the reasons and measurements.
const (
	// maxSteps is how many times subschemas are applied to values, for one value and schema. One takes up to
	// 2 µs. A transaction has the steps of up to maxOperations, for all of its operations together.
	maxSteps      = 100_000
	maxOperations = 5

	// maxRuleCost is the cost of one evaluation of a rule, in cel-go's unit. A unit takes a few nanoseconds.
	maxRuleCost = 1_000_000

	// maxRequestCost is the cost of all evaluations of a request, which has as many as operations times rules.
	// The last one may exceed it.
	maxRequestCost = 10 * maxRuleCost

	// maxTime ends the checks of a request. It is looked at before each schema and rule, and in the loops of rules.
	maxTime = time.Second
)

// Budget limits what the checks of one request may cost. It belongs to one goroutine.
type Budget struct {
	ctx   context.Context // while Spend runs
	left  time.Duration
	steps int
	cost  uint64 // of the evaluations so far

	operations int // of the request, at most maxOperations
}

// NewBudget returns the budget of a request with a number of operations.
func NewBudget(operations int) *Budget {
	operations = max(1, min(operations, maxOperations))
	return &Budget{left: maxTime, steps: maxSteps * operations, operations: operations}
}

// Spend runs checks on the time of the budget. A request that writes several times, because the object that it
// replaces changes, spends its budget each time, but not while it waits for the store.
func (b *Budget) Spend(ctx context.Context, check func()) {
	begin := time.Now()
	within, stop := context.WithTimeout(ctx, b.left)
	defer func() {
		stop()
		b.ctx, b.left = nil, b.left-time.Since(begin)
	}()
	b.ctx = within
	check()
}

// ended refuses a write if the budget has no time or cost left.
func (b *Budget) ended(found *Violations) bool {
	if b.ctx.Err() == nil && b.cost < maxRequestCost {
		return false
	}
	found.add(nil, "takes too long to check: the checks of a request have %v, and their rules a cost of %d", maxTime, maxRequestCost)
	return true
}

// spend takes steps, and reports whether there were enough.
func (b *Budget) spend(steps int) bool {
	b.steps -= steps
	return b.steps >= 0
}

// spendOn takes a step for each value inside of a value.
func (b *Budget) spendOn(value any) bool {
	if !b.spend(1) {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			if !b.spendOn(child) {
				return false
			}
		}
	case []any:
		for _, child := range v {
			if !b.spendOn(child) {
				return false
			}
		}
	}
	return true
}
