package watch

import (
	"unique"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Summary is the part of a WatchRequest that ListWatchers shows. Watches with equal
// summaries share one copy in memory.
type Summary struct{ encoded unique.Handle[string] }

// Summarize returns the summary of a request. It leaves out the beginning of the watch and
// the consistency. It also leaves out unknown fields, because they may be large.
func Summarize(req *fanoutv1.WatchRequest) Summary {
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
		b = nil // cannot happen: the request was unmarshalled
	}
	return Summary{unique.Make(string(b))}
}

// scopeOnly returns the scope without unknown fields.
func scopeOnly(s *fanoutv1.Scope) *fanoutv1.Scope {
	if s.GetScope() == nil {
		return nil
	}
	return &fanoutv1.Scope{Scope: s.GetScope()}
}

// Request returns the summary as a request.
func (s Summary) Request() *fanoutv1.WatchRequest {
	req := &fanoutv1.WatchRequest{}
	_ = proto.Unmarshal([]byte(s.encoded.Value()), req) // Summarize has marshalled it
	return req
}
