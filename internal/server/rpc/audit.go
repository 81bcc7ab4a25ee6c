package rpc

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// maxAuditKeys is how many keys of one transaction a record has. It has the number of all.
const maxAuditKeys = 100

// audited returns the kind of record for a finished request, or false if the request is not
// recorded. The audit log has denials, writes, and acts of operators.
func audited(fullMethod string, code codes.Code, reason apierr.Reason) (kind audit.Kind, ok bool) {
	service, verb := path.Split(fullMethod)
	switch {
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return audit.Denied, true
	case service == "/"+fanoutv1.StoreService_ServiceDesc.ServiceName+"/":
		kind = audit.Write
	case service == "/"+fanoutv1.AdminService_ServiceDesc.ServiceName+"/" && !onlyReads(verb),
		service == "/"+fanoutv1.ClusterService_ServiceDesc.ServiceName+"/" && !onlyReads(verb):
		kind = audit.Admin
	default:
		return "", false
	}
	// These requests were refused before they were authorized.
	switch reason {
	case apierr.ReasonRateLimited, apierr.ReasonRequestTooLarge, apierr.ReasonLimitReached, apierr.ReasonIssuerUnavailable:
		kind = audit.Denied
	}
	return kind, true
}

// onlyReads reports whether a method for operators changes nothing and reveals no objects.
func onlyReads(method string) bool {
	return slices.ContainsFunc([]string{"List", "Get", "Watch"}, func(verb string) bool { return strings.HasPrefix(method, verb) })
}

// How many bytes of records the denials of one client may take at once (some hundreds of
// records) and per second (about one record).
const (
	denialBytes          = 128 << 10
	denialBytesPerSecond = 512
)

// NewDenials returns the limits of how many denials of one client are recorded. Any client can
// cause as many as it can send, and the rotation of the audit log would then drop the records of
// others.
func NewDenials() quota.ClientLimiters {
	return quota.NewClientLimiters(denialBytesPerSecond, denialBytes)
}

// Record records a finished request in the audit log, if it belongs there. It only counts denials of a
// client that is denied too often.
func (i *Interceptors) Record(ctx context.Context, c *Call, fullMethod string, err error) {
	if i.Audit == nil {
		return
	}
	st := status.Convert(err)
	var reason string
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			reason = info.GetReason()
		}
	}
	kind, ok := audited(fullMethod, st.Code(), apierr.Reason(reason))
	if !ok {
		return
	}
	r := &audit.Record{
		Kind: kind, Method: strings.TrimPrefix(fullMethod, "/"), Identity: c.Identity.Name, Authentication: string(c.Identity.Method),
		Resource: c.Resource, Code: st.Code().String(), Reason: reason,
	}
	r.Peer, r.UserAgent = transport.CallerOf(ctx)
	if kind == audit.Write {
		if one, ok := c.request.(interface{ GetValidateOnly() bool }); ok && one.GetValidateOnly() {
			return // it writes nothing
		}
		if one, ok := c.request.(interface{ GetSkipValidation() bool }); ok {
			r.SkippedValidation = one.GetSkipValidation()
		}
		if one, ok := c.request.(interface{ GetMessage() string }); ok {
			r.Message = apierr.Clip(one.GetMessage(), apierr.MaxEchoBytes)
		}
	}
	r.Keys, r.KeyCount = keysOf(c.request)
	if one, ok := c.request.(*fanoutv1.EndWatcherRequest); ok {
		r.Watcher = apierr.Clip(one.GetId(), apierr.MaxEchoBytes)
	}
	if one, ok := c.request.(interface{ GetMember() string }); ok {
		r.Member = apierr.Clip(one.GetMember(), apierr.MaxEchoBytes)
	}
	if at, ok := c.answer.(interface{ GetRevision() int64 }); ok && err == nil {
		r.Revision = at.GetRevision()
	}
	who := quota.Client{Name: r.Identity}
	if r.Identity == "" {
		who = quota.ClientAt(r.Peer)
	}
	if r.Kind == audit.Denied && !i.Denials.Of(who).AllowN(time.Now(), r.Size()) {
		i.Audit.CountOmitted()
		return
	}
	i.Audit.Write(r)
}

// keysOf returns the first keys that a request names, and how many it names.
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
	case interface{ GetKey() string }: // a denied read
		add(r.GetKey())
	}
	return keys, count
}
