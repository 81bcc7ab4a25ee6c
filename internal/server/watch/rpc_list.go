package watch

import (
	"cmp"
	"slices"
)

// registeredRPC is an RPC in the registry.
type registeredRPC struct {
	number uint64
	entry  *Entry // nil: the RPC is a stream
	stream Stream
}

// rpcList has the registered RPCs in the order of their numbers, so a page of them costs no more than
// the page.
type rpcList struct {
	all   []registeredRPC // those that have gone have neither an entry nor a stream
	holes int             // number of those that have gone
}

// add adds an RPC with the highest number so far.
func (l *rpcList) add(r registeredRPC) { l.all = append(l.all, r) }

// search returns the index of the first RPC with the number or a higher one.
func (l *rpcList) search(number uint64) int {
	i, _ := slices.BinarySearchFunc(l.all, number, func(r registeredRPC, n uint64) int { return cmp.Compare(r.number, n) })
	return i
}

// find returns the RPC with the number. If it has gone, the result has neither an entry nor a
// stream.
func (l *rpcList) find(number uint64) registeredRPC {
	if i := l.search(number); i < len(l.all) && l.all[i].number == number {
		return l.all[i]
	}
	return registeredRPC{}
}

// remove removes the RPC with the number, if it is in the list.
func (l *rpcList) remove(number uint64) {
	i := l.search(number)
	if i == len(l.all) || l.all[i].number != number || l.all[i].isGone() {
		return
	}
	l.all[i] = registeredRPC{number: number}
	if l.holes++; l.holes > 32 && l.holes > len(l.all)/2 {
		l.all = slices.Clone(slices.DeleteFunc(l.all, func(r registeredRPC) bool { return r.isGone() }))
		l.holes = 0
	}
}

// len returns the number of RPCs.
func (l *rpcList) len() int { return len(l.all) - l.holes }

func (r *registeredRPC) isGone() bool { return r.entry == nil && r.stream == nil }
