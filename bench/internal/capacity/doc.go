// Package capacity says what servers hold, from what the load tool has measured on one
// machine, and simulates what happens when some of them go: who comes back when, and what
// that costs the others. docs/capacity.md is made of it.
package capacity
