package rpc

import (
	"context"
	"path"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// maxAuditKeys is how many keys of one transaction are audited; of the others there is
// only their number.
const maxAuditKeys = 100

// audited says what kind of request a finished one is for the audit log, and false if
// it does not belong there: who may not do what it wanted, who has written, and who
// has acted as an operator.
func audited(fullMethod string, code codes.Code, reason apierr.Reason) (kind audit.Kind, ok bool) {
	service, verb := path.Split(fullMethod)
	switch {
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return audit.Denied, true
	case service == "/"+fanoutv1.StoreService_ServiceDesc.ServiceName+"/":
		kind = audit.Write
	// Who looks changes nothing.
	case service == "/"+fanoutv1.AdminService_ServiceDesc.ServiceName+"/" && !strings.HasPrefix(verb, "List") && !strings.HasPrefix(verb, "Get"):
		kind = audit.Admin
	default:
		return "", false
	}
	// These are given before anybody looks at what the caller may do.
	switch reason {
	case apierr.ReasonRateLimited, apierr.ReasonRequestTooLarge, apierr.ReasonTooManyRequests, apierr.ReasonIssuerUnavailable:
		kind = audit.Denied
	}
	return kind, true
}

func (i *Interceptors) Record(ctx context.Context, c *Call, fullMethod string, err error) {
	r := i.record(ctx, c, fullMethod, err)
	if r == nil {
		return
	}
	r.Resource = c.Resource
	r.Keys, r.KeyCount = keysOf(c.exchange().request)
	if one, ok := c.exchange().request.(*fanoutv1.EndWatcherRequest); ok {
		r.Watcher = apierr.Clip(one.GetId(), apierr.MaxEchoBytes)
	}
	if at, ok := c.exchange().answer.(interface{ GetRevision() int64 }); ok && err == nil {
		r.Revision = at.GetRevision()
	}
	i.write(r)
}

// auditOperator records that somebody was denied what is for operators.
func (i *Interceptors) auditOperator(ctx context.Context, c *Call, what string, err error) {
	if r := i.record(ctx, c, apierr.Clip(what, apierr.MaxEchoBytes), err); r != nil {
		i.write(r)
	}
}

// record returns what is the same for all requests, or nil for one that is not audited.
func (i *Interceptors) record(ctx context.Context, c *Call, fullMethod string, err error) *audit.Record {
	st := status.Convert(err)
	var reason string
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	kind, ok := audited(fullMethod, st.Code(), apierr.Reason(reason))
	if !ok || i.Audit == nil {
		return nil
	}
	r := &audit.Record{
		Kind: kind, Method: strings.TrimPrefix(fullMethod, "/"), Identity: c.Identity.Name, Authentication: string(c.Identity.Method),
		Code: st.Code().String(), Reason: reason,
	}
	r.Peer, r.UserAgent = transport.CallerOf(ctx)
	return r
}

// write has something recorded, or only counted if its client is denied too much.
func (i *Interceptors) write(r *audit.Record) {
	who := quota.Client{Name: r.Identity}
	if r.Identity == "" {
		who = quota.ClientAt(r.Peer)
	}
	if r.Kind == audit.Denied && !i.Denials.recorded(who, r) {
		i.Audit.CountOmitted()
		return
	}
	i.Audit.Write(r)
}

// keysOf returns the keys that a request names, or the first of them, and how many
// there are.
func keysOf(req any) (keys []string, count int) {
	add := func(key string) {
		if count++; count <= maxAuditKeys {
			keys = append(keys, apierr.Clip(key, apierr.MaxEchoBytes))
		}
	}
	switch r := req.(type) {
	case *fanoutv1.PutRequest:
		add(r.GetPut().GetKey())
	case *fanoutv1.DeleteRequest:
		add(r.GetDelete().GetKey())
	case *fanoutv1.TransactRequest:
		for _, o := range r.GetOperations() {
			switch one := o.GetOperation().(type) {
			case *fanoutv1.Operation_Put:
				add(one.Put.GetKey())
			case *fanoutv1.Operation_Delete:
				add(one.Delete.GetKey())
			case *fanoutv1.Operation_Check:
				add(one.Check.GetKey())
			}
		}
	case interface{ GetKey() string }: // of a read that was denied
		add(r.GetKey())
	}
	return keys, count
}
