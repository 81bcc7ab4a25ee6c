// Package load is the receiving side of a benchmark: a process with watchers, separate from
// the servers.
//
// The process reads a [Config] as a line of JSON from its standard input. It writes
// [Message]s, one per line, to its standard output, the first one when all watchers are
// registered. Then it executes [Command]s until its standard input ends. [Start] starts such
// a process and is the other end.
package load
