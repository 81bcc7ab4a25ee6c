// Package rules checks what a compiler does not: who may import whom, and the
// habits of this code.
package rules
