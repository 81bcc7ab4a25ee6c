package registry

import (
	"unique"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Summary is the part of a WatchRequest that ListWatchers shows, without the scope. Watches with
// equal summaries share one copy in memory, so watches of different keys share it, too.
type Summary struct{ encoded unique.Handle[string] }

// summarize returns the summary of a request. It leaves out the beginning of the watch and
// the consistency. It also leaves out unknown fields, because they may be large.
func summarize(req *fanoutv1.WatchRequest) Summary {
	return Summary{encodeOnce(&fanoutv1.WatchRequest{
		Resource:         req.GetResource(),
		LabelSelector:    req.GetLabelSelector(),
		FieldSelector:    req.GetFieldSelector(),
		PreviousObject:   req.GetPreviousObject(),
		OmitValues:       req.GetOmitValues(),
		JsonValues:       req.GetJsonValues(),
		BookmarkInterval: req.GetBookmarkInterval(),
		Delivery:         req.GetDelivery(),
		MaxBatchDelay:    req.GetMaxBatchDelay(),
		TimeLimit:        req.GetTimeLimit(),
		EveryEvent:       req.GetEveryEvent(),
	})}
}

// Request returns the summary as a request for a scope.
func (s Summary) Request(scope object.Scope) *fanoutv1.WatchRequest {
	req := &fanoutv1.WatchRequest{}
	_ = proto.Unmarshal([]byte(s.encoded.Value()), req) // summarize has marshalled it
	if key, ok := scope.Key(); ok {
		req.Scope = &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: string(key)}}
	} else if path, ok := scope.Prefix(); ok {
		req.Scope = &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: path}}
	}
	return req
}
