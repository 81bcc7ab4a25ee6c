package server

import "runtime"

// loan gives a share back when a response is no longer held: when gRPC has sent it or
// dropped it with its stream. gRPC does not say so of the streams of a connection
// that breaks; those the garbage collector finds.
type loan struct{ share *share }

// loanBytes is more than what gRPC would not bother to count the references of.
const loanBytes = 1<<10 + 1

// piece returns the bytes as a piece of a response, after which the loan ends.
func (l loan) piece(b []byte) *[]byte {
	data := make([]byte, len(b), max(len(b), loanBytes))
	copy(data, b)
	runtime.AddCleanup(&data[:1][0], (*share).giveBack, l.share)
	return &data
}

// Get implements mem.BufferPool. Nobody gets anything from a loan.
func (loan) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put implements mem.BufferPool.
func (l loan) Put(*[]byte) { l.share.giveBack() }
