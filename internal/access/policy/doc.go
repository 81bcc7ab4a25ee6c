// Package policy decides who may do what. [Parse] reads a policy file, and
// [Policy.Grants] answers whether a caller has a right.
//
// A rule names callers, verbs, resources and, optionally, a part of each resource:
// exact keys, or the subtrees below prefixes. A rule without keys and prefixes covers
// whole resources. Rules only grant rights; no rule takes one away.
//
// A [Question] asks about a verb, a resource and a scope. A scope is granted as a whole
// or not at all, and a single rule must cover it:
//
//   - a whole resource is covered only by rules for the whole resource;
//   - a subtree, by those and by rules for it or for a subtree above it;
//   - a key, by all of these and by rules for that key.
//
// Several rules together never cover more than one of them does. A subtree has
// infinitely many keys, so a finite number of narrower rules always leaves some of them
// uncovered. Rights on keys, however many, therefore never grant a range.
package policy
