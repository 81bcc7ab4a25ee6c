// Package load is the receiving side of a benchmark: a process with watchers, apart
// from the servers that it measures.
//
// It is told what to watch by one line of JSON, a [Config], on its standard input,
// says [Message]s of one line each on its standard output, the first when all watchers
// are registered, and then follows [Command]s until its standard input ends. [Start]
// is the other end.
package load
