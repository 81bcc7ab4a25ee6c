package validation

import "time"

// NewPatientBudget returns a budget whose time does not end on a busy machine: only costs end its checks.
func NewPatientBudget(operations int) *Budget {
	b := NewBudget(operations)
	b.left = time.Hour
	return b
}
