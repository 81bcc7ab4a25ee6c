package rpc

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"strings"

	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// errNoCredentials refuses anonymous callers where the policy allows them nothing.
var errNoCredentials error = &access.RefusedError{Message: "the request shows no credentials: neither a bearer token nor a client certificate", Fault: access.FaultMissing}

// authenticate puts the identity of the caller into the context. It refuses invalid credentials. A caller without credentials is anonymous, and refused if the
// policy allows nothing to anonymous callers. Load balancers have no credentials, so Check
// and Watch of the health service need none; List, which shows the names of resources, does.
//
// A request counts as its client's only once the client is known. So refused requests count
// as those of their host. Otherwise a host could make the server verify tokens and record
// denials as fast as it can send.
func (i *Interceptors) authenticate(ctx context.Context) (context.Context, error) {
	in, err := i.identify(ctx)
	return in, i.countRefusal(ctx, err)
}

// countRefusal counts and logs refused credentials. It returns err, or that the host has been
// refused too often.
func (i *Interceptors) countRefusal(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*access.RefusedError](err); ok {
		i.Limits.RefuseCredentials(quota.ClientOf(ctx), refused.Fault, refused)
		return cmp.Or(i.Limits.AllowRequest(quota.ClientOf(ctx)), err)
	}
	return err
}

func (i *Interceptors) identify(ctx context.Context) (context.Context, error) {
	if i.Authenticator == nil {
		return ctx, nil
	}
	switch Method(ctx) {
	case healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName:
		return ctx, nil
	}
	shown, err := credentialsOf(ctx)
	if err != nil {
		return nil, err
	}
	return i.identified(ctx, shown)
}

// identified returns the context with the identity that the credentials prove.
func (i *Interceptors) identified(ctx context.Context, shown access.Credentials) (context.Context, error) {
	pass, err := i.Authenticator.Identify(ctx, shown)
	if err != nil {
		return nil, err
	}
	if pass.Anonymous() && !i.Rights.policy.Load().AdmitsAnonymous() {
		return nil, errNoCredentials
	}
	noteClient(ctx, &pass.Identity)
	CallOf(ctx).pass = &pass
	return access.With(ctx, pass.Identity), nil
}

// credentialsOf returns the credentials of a gRPC request.
func credentialsOf(ctx context.Context) (access.Credentials, error) {
	var shown access.Credentials
	if p, ok := peer.FromContext(ctx); ok {
		switch info := p.AuthInfo.(type) {
		case transport.ConnInfo:
			if secured, ok := info.AuthInfo.(credentials.TLSInfo); ok && len(secured.State.VerifiedChains) > 0 {
				shown.Certificate = secured.State.VerifiedChains[0][0]
			}
		case transport.LocalInfo:
			if der := transport.Header(ctx, behalfHeader); der != "" {
				certificate, err := x509.ParseCertificate([]byte(der))
				if err != nil {
					return shown, &access.RefusedError{Message: "the client certificate cannot be read", Fault: access.FaultMalformed, Err: err}
				}
				shown.Certificate = certificate
			}
		}
	}
	var err error
	shown.Bearer, err = bearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
	return shown, err
}

// bearer returns the token in the values of an Authorization header (RFC 6750, section 2.1).
// The function of the interceptor library would accept the first of several.
func bearer(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		scheme, token, _ := strings.Cut(values[0], " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "bearer") && token != "" {
			return token, nil
		}
		return "", &access.RefusedError{Message: `the Authorization header must be "Bearer" and a token`, Fault: access.FaultMalformed}
	}
	return "", &access.RefusedError{Message: "there is more than one Authorization header", Fault: access.FaultMalformed}
}

// PassOf returns the pass of the caller: how long its credentials are valid. Without an
// authenticator the pass never expires.
func PassOf(ctx context.Context) *access.Pass {
	return cmp.Or(CallOf(ctx).pass, everlasting)
}

var everlasting = &access.Pass{}
