// Package stamp is what a benchmark writes into a value: which event it is and when
// it was written, so that whoever receives the value knows how long that took and
// whether something is missing.
//
// A stamp is plain text, so that it survives every codec, and is found by looking
// for its first bytes, so that a reader need not understand what is around it.
package stamp
