// Package calls measures unary calls: a process with a few connections, each of which keeps a
// number of calls in flight.
//
// The client costs as little as possible, so that it does not compete with the servers for the
// processors: a connection has one goroutine, which reads answers and makes the next calls, and
// it writes to the socket when it has handled all that has arrived. It does not decode answers; it checks
// their statuses and sizes.
//
// [Start] starts the process. [Run] is its main function; it reads a [Config] and then commands
// as lines of JSON.
package calls
