package subscribe

import (
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// report records how far the client has applied a watch. Reports have no answer, so one that is
// wrong, or for which there is no watch, is ignored.
func (s *stream) report(req *fanoutv1.SubscribeRequest_Report) {
	limits := s.service.registry.Interceptors.Limits
	if err := limits.AllowReport(s.caller.Client()); err != nil {
		limits.Refuse(s.ctx, err)
		return
	}
	report, err := request.ParseStreamReport(req)
	if err != nil {
		return
	}
	if e := s.table.find(req.GetWatchId()); e != nil {
		_ = s.service.registry.Report(e, report)
	}
}
