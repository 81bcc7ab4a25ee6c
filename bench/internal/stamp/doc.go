// Package stamp marks values with the number of an event and the time of its write. A
// receiver calculates the latency from it and notices missing events.
//
// A stamp is plain text, so that it survives every codec. A reader finds it by its first
// bytes, so that it need not decode the message around it.
package stamp
