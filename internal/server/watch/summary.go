package watch

import (
	"unique"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// requestSummary is the part of a WatchRequest that ListWatchers shows. Watches with equal
// summaries share one copy in memory.
type requestSummary struct{ encoded unique.Handle[string] }

// summarize returns the summary of a request. It leaves out the beginning of the watch and
// the consistency. It also leaves out unknown fields, because they may be large.
func summarize(req *fanoutv1.WatchRequest) requestSummary {
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
	return requestSummary{unique.Make(string(b))}
}

// scopeOnly returns the scope without unknown fields.
func scopeOnly(s *fanoutv1.Scope) *fanoutv1.Scope {
	if s.GetScope() == nil {
		return nil
	}
	return &fanoutv1.Scope{Scope: s.GetScope()}
}

// request returns the summary as a request.
func (s requestSummary) request() *fanoutv1.WatchRequest {
	req := &fanoutv1.WatchRequest{}
	_ = proto.Unmarshal([]byte(s.encoded.Value()), req) // summarize has marshalled it
	return req
}
