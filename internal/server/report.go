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
	w := f.watches.FindByToken(report.Watch)
	if w == nil {
		return nil, apierr.ErrUnknownWatch
	}
	rpc.CallOf(ctx).Resource = w.Resource() // for the audit log
	if caller := access.From(ctx); !w.Caller().HasOpened(caller) {
		return nil, &apierr.ForeignWatchError{Caller: caller, Resource: w.Resource()}
	}
	return &fanoutv1.ReportResponse{}, f.watches.Report(w, report)
}
