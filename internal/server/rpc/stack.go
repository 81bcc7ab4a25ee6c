package rpc

// callStackBytes is about how much stack a unary call needs below its handler. With the frames of gRPC
// above it, a stack of 8 KiB is enough. A write to an embedded etcd needs writeStackBytes: it is
// encoded for the log of etcd below its handler.
const (
	callStackBytes  = 4 << 10
	writeStackBytes = 8 << 10
)

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

// growStackForWrite is growStack for a write.
//
//go:noinline
func growStackForWrite(i int) byte {
	var room [writeStackBytes]byte
	room[i] = 1
	return room[i/2]
}
