// Package audit records writes, denials and actions of operators. The
// log is a file with one line of JSON per record, which is rotated.
//
// Writing never blocks a request. [Log.Write] queues a record, and one goroutine writes the
// queue to the file. If the queue is full because the disk is slow, or if the file cannot be
// written because the disk is full, the record is lost and counted. The next written record
// contains the number of lost ones in the field "missing".
//
// The server continues without the audit log. Otherwise anyone who fills the disk could stop
// all writes.
//
// A caller may omit records when there are too many. It counts them with [Log.CountOmitted],
// and the next record contains their number in the field "left_out".
package audit
