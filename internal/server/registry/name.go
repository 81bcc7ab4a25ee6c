package registry

import (
	"unique"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// SubscriberName is an encoded Subscriber. Watches with equal names share one copy in memory.
// The zero value is no name.
type SubscriberName struct{ encoded unique.Handle[string] }

// nameOf returns the name of a subscriber. It leaves out unknown fields.
func nameOf(s *fanoutv1.Subscriber) SubscriberName {
	if s.GetInstance() == "" && len(s.GetLabels()) == 0 {
		return SubscriberName{}
	}
	return SubscriberName{encodeOnce(&fanoutv1.Subscriber{Instance: s.GetInstance(), Labels: s.GetLabels()})}
}

// encodeOnce returns an encoded message. Equal messages share one copy in memory.
func encodeOnce(m proto.Message) unique.Handle[string] {
	b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // cannot fail: it was a part of a request
	return unique.Make(string(b))
}

// Subscriber returns the name as a message, or nil if there is none.
func (n SubscriberName) Subscriber() *fanoutv1.Subscriber {
	if n == (SubscriberName{}) {
		return nil
	}
	s := &fanoutv1.Subscriber{}
	_ = proto.Unmarshal([]byte(n.encoded.Value()), s) // nameOf has marshalled it
	return s
}
