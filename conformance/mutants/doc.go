// Package mutants shows that the conformance kit notices wrong clients. A mutant is one of our clients with one mistake: a
// text of its source is replaced. Each mutant must fail a scenario, for the right reason.
//
// FANOUTD_TEST_MUTANTS names the clients that take part: go, python and node, with commas between.
package mutants
