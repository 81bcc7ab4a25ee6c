// Package parts has the parts of catch-ups: the messages that are made from a state or from the window
// instead of the log.
//
// A [Cut] decides where a message ends. A [Cache] lets the watches of one interest that catch up at the
// same time share the parts that one of them made, within a [Budget]. [RetainedStates] keep the past
// states from which the remaining parts of long catch-ups are made.
package parts
