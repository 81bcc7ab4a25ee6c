// Package validation checks objects before they are written: with JSON Schema, and with rules in CEL.
//
// [Parse] compiles a validation file and the schemas that it names. The result, a [Set], is immutable.
// [Set.For] returns the checks of a key. A [Budget] limits what all checks of one request may cost, so that a
// hostile value, schema or rule takes bounded time. [Live] has the set in force while the file changes.
//
// A check of a [Write] reports every fault as a [Violation]: where it is in the value, what is allowed and
// what was given. The package neither reads nor locks an object. Its caller passes the object that the write
// replaces, and must not store the write if there is another one: see docs/dev/validation.md.
package validation
