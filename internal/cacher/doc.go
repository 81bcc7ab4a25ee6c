// Package cacher keeps the current state of one resource in memory, together
// with a sliding window of its most recent changes.
package cacher
