// Package lane has a few workers serve very many streams.
//
// To wake ten thousand goroutines for one event costs more than to write the event,
// and each of them sends whenever it happens to run, so that a connection with a
// hundred streams is written to a hundred times. Here a connection has a [Lane], a lane
// has one worker, and the worker does what is ready on the lane, one task after the
// other: the transport finds everything together and writes it at once.
//
// A task must not wait for anything but short locks: all others of its worker wait with
// it.
package lane
