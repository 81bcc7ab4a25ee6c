// Package subscription lets tests make watches over Subscribe with the code that they have for
// Watch. It is independent of the Go client, and simple: it buffers without bounds, and does not
// reconnect on its own.
//
// A [Client] is a client of FanoutService whose Watch starts a watch on a Subscribe stream that
// all its watches share. A [Stream] is one such stream. It records everything that it receives,
// for the checkers of package check.
package subscription
