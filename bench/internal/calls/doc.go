// Package calls measures unary calls. Its process has a few connections, and each keeps a number of
// calls in flight.
//
// The client costs as little as possible, so that it does not compete with the servers for the
// processors. A connection has one goroutine, which reads answers and makes the next calls. It
// writes to the socket when it has handled everything that has arrived. It checks the status and the
// size of an answer, and does not decode it.
//
// [Start] starts the process. [Run] is its main function; it reads a [Config] and then commands
// as lines of JSON.
package calls
