// Package policy decides who may do what: it reads a policy file and answers whether
// a caller has a right.
//
// A rule names callers, verbs, resources and a part of the resources: exact keys,
// subtrees below a prefix, or, where it names neither, everything. A right that no
// rule gives is not there; no rule takes one away.
//
// Questions are about a verb, a resource and a scope, and a scope is granted as a
// whole or not at all. One rule has to cover it: the whole resource is covered only
// by rules for the whole resource, a subtree by those and by rules for it or for a
// subtree above it, a key by all of those and by rules for the key. Several rules
// together never cover more than one of them does, because a subtree has endlessly
// many keys, of which a finite number of narrower rules leaves some uncovered. So a
// right on keys, however many, is never one on a range.
package policy
