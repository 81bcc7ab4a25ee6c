package rpc

import (
	"context"
	"crypto/x509"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Verbs returns what the caller of a request over HTTP may do with a part of a resource. To ask is
// allowed to every caller, so the audit log has no denials of it but those of bad credentials.
// Context and arguments are those of [Interceptors.Operator].
func (i *Interceptors) Verbs(ctx context.Context, what string, certificate *x509.Certificate, authorization []string, resource string, scope object.Scope) ([]policy.Verb, error) {
	c := &Call{}
	ctx = context.WithValue(ctx, callKey{}, c)
	verbs, err := i.verbs(ctx, c, certificate, authorization, resource, scope)
	if err = i.Finish(ctx, err); err != nil {
		i.auditOperator(ctx, c, what, err)
		return nil, err
	}
	return verbs, nil
}

func (i *Interceptors) verbs(ctx context.Context, c *Call, certificate *x509.Certificate, authorization []string, resource string, scope object.Scope) ([]policy.Verb, error) {
	in, err := i.known(ctx, certificate, authorization)
	if err != nil {
		return nil, i.countRefusal(ctx, err)
	}
	c.Identity = access.From(in)
	if err := i.Limits.AllowRequest(quota.ClientOf(in)); err != nil {
		return nil, err
	}
	var granted []policy.Verb
	for _, verb := range policy.Verbs() {
		if verb == policy.Metrics && resource != EveryResource {
			continue // the metrics are not those of a resource
		}
		if i.Rights.May(in, verb, resource, scope) == nil {
			granted = append(granted, verb)
		}
	}
	return granted, nil
}
