// Package apierr has the errors of the protocol, and the one table that turns any error
// into a gRPC status.
//
// Handlers return plain Go errors: those of this package, such as [NotFoundError] and
// [LimitError], and those of the packages below, such as cacher.FutureError. None of
// them knows gRPC. Where a request leaves the server, [Status] makes a status of the
// error: a code, a message, and google.rpc.ErrorInfo with a [Reason] and metadata. It
// adds google.rpc.RetryInfo where a later try may succeed, and google.rpc.BadRequest to
// an [InvalidError].
//
// To add a reason: declare it in reason.go, set its code and whether a retry helps in
// the table there, add the error to answerFor in status.go, and describe it in
// docs/reference/errors.md. A test compares the four.
//
// A status repeats parts of the request. Clients accept only small trailers, so all
// repeated text goes through [Clip].
package apierr
