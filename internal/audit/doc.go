// Package audit keeps the record of who has written, who was denied what they wanted,
// and what operators have done: a line of JSON each, in a file that is rotated.
//
// Nobody waits for it. A record is queued and written by a goroutine; where the queue
// is full, because the disk is slow, or the file cannot be written, because the disk
// is full, the record is lost, counted, and the next one that is written says how many
// are missing before it. The server goes on: an audit log that stops all writes would give
// whoever fills the disk a way to stop them. What callers leave out, because there is too
// much of it, the next record tells, too.
package audit
