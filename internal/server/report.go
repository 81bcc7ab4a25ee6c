package server

import (
	"context"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// Report implements FanoutService.
func (f *fanout) Report(ctx context.Context, req *fanoutv1.ReportRequest) (*fanoutv1.ReportResponse, error) {
	report, err := request.ParseReport(req)
	if err != nil {
		return nil, err
	}
	e := f.watches.FindByToken(report.Watch)
	if e == nil {
		return nil, apierr.ErrUnknownWatch
	}
	rpc.CallOf(ctx).Resource = e.Resource() // for the audit log
	if caller := access.From(ctx); !e.OpenedBy(caller) {
		return nil, &apierr.ForeignWatchError{Caller: caller, Resource: e.Resource()}
	}
	return &fanoutv1.ReportResponse{}, e.Report(report)
}
