package subscribe

import (
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/watch"
)

// parsedRequest is a valid request for a watch. Starts that share a decoded request share it, too.
type parsedRequest struct {
	request  *fanoutv1.WatchRequest
	target   request.Target
	resource *backend.Resource
	watch    request.Watch
	summary  watch.Summary
}

// parse checks whether the caller may have a watch, and parses the request for it. Only the reader
// calls it.
func (s *stream) parse(req *fanoutv1.WatchRequest) (*parsedRequest, error) {
	if p := s.parsed; p != nil && p.request == req {
		// The policy may have changed since the latest start.
		return p, s.service.cfg.Interceptors.Rights.MayRead(s.ctx, policy.Watch, p.target)
	}
	resource, parsed, err := s.service.cfg.Watches.Parse(s.ctx, req)
	if err != nil {
		return nil, err
	}
	p := &parsedRequest{req, request.ParseTarget(req), resource, parsed, watch.Summarize(req)}
	s.parsed = p
	return p, nil
}
