// Package scenario is what a benchmark does with a system: who watches, what is
// written, and what is told of it.
package scenario
