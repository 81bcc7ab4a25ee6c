package rpc

// callStackBytes is about how much stack a unary call needs below its handler. With the frames of gRPC
// above it, a stack of 8 KiB is enough.
const callStackBytes = 4 << 10

// growStack makes room on the stack for a unary call. gRPC starts a goroutine for each call, whose
// stack is small and is copied each time that it doubles. Here it grows once, while there is little
// to copy. The result has no meaning.
//
//go:noinline
func growStack(i int) byte {
	var room [callStackBytes]byte
	room[i] = 1
	return room[i/2]
}
