// Package rules checks what the compiler does not: which packages may import which, and the
// conventions of this repository.
package rules
