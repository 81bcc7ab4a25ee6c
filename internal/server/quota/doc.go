// Package quota enforces the limits on what clients may use.
//
// [Limits] is the configuration and [Limiter] the state. A [Client] is an authenticated
// name, or else the address of a host. There are five kinds of limit:
//
//   - Counts: watches, distinct selectors, connections. There is one limit for all clients and
//     one for each. A request that exceeds one is refused at once.
//   - Amounts that are held briefly: snapshots being sent, the memory of
//     lists and of requests. A [FairSemaphore] hands them out; clients wait and take turns.
//   - Rates: requests, connections and abandoned streams per second ([ClientLimiters]).
//   - Turns: while processors are busy, the connections of a host begin streams one after
//     another.
//   - Sizes: one request.
//
// A refusal is an [apierr.LimitError]. [Limiter.Refuse] counts it, logs it from time to
// time, and tells the client when to try again.
//
// All methods may be called from any goroutine. What a method hands out must be released
// once; a [Reservation] may be released more often.
package quota
