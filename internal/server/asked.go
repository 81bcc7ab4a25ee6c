package server

import (
	"unique"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// asked is what is worth showing of the request of a watch. Very many watches ask for the
// same, of which there is one copy.
type asked struct{ encoded unique.Handle[string] }

// askedFor returns what a request asks for, without where it wants to begin, and without
// fields that nobody knows, by which it can have grown.
func askedFor(req *fanoutv1.WatchRequest) asked {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&fanoutv1.WatchRequest{
		Resource:         req.GetResource(),
		Scope:            scopeOnly(req.GetScope()),
		LabelSelector:    req.GetLabelSelector(),
		FieldSelector:    req.GetFieldSelector(),
		PreviousObject:   req.GetPreviousObject(),
		OmitValues:       req.GetOmitValues(),
		BookmarkInterval: req.GetBookmarkInterval(),
		Delivery:         req.GetDelivery(),
		MaxBatchDelay:    req.GetMaxBatchDelay(),
		TimeLimit:        req.GetTimeLimit(),
		EveryEvent:       req.GetEveryEvent(),
	})
	if err != nil {
		b = nil // it could be read, so it can be written
	}
	return asked{unique.Make(string(b))}
}

func scopeOnly(s *fanoutv1.Scope) *fanoutv1.Scope {
	if s.GetScope() == nil {
		return nil
	}
	return &fanoutv1.Scope{Scope: s.GetScope()}
}

// request returns it as a request.
func (a asked) request() *fanoutv1.WatchRequest {
	req := &fanoutv1.WatchRequest{}
	_ = proto.Unmarshal([]byte(a.encoded.Value()), req) // what askedFor has written
	return req
}
