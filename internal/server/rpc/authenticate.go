package rpc

import (
	"cmp"
	"context"
	"crypto/x509"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// errNoCredentials refuses those who have not said who they are.
var errNoCredentials error = &access.RefusedError{Message: "the request shows no credentials: neither a bearer token nor a client certificate"}

// authenticate finds out who makes a request and puts it into the context. It is an
// auth.AuthFunc. Who shows what is not good is refused in any case; who shows nothing
// is anonymous, and refused where the policy has nothing for those. How healthy something
// is whose name is known is not asked by people, and told to everybody; which names there
// are is not.
//
// Requests count as those of their client only when it is known who that is. So those
// that are refused count as those of the host that they come from: otherwise anybody
// could have as many tokens judged and denials recorded as it can send.
func (i *Interceptors) authenticate(ctx context.Context) (context.Context, error) {
	in, err := i.identify(ctx)
	return in, i.countRefusal(ctx, err)
}

// countRefusal returns the error, or that its client has been refused too often.
func (i *Interceptors) countRefusal(ctx context.Context, err error) error {
	if apierr.IsBadCredentials(err) {
		return cmp.Or(i.Limits.AllowRequest(quota.ClientOf(ctx)), err)
	}
	return err
}

func (i *Interceptors) identify(ctx context.Context) (context.Context, error) {
	switch name := Method(ctx); {
	case i.Authenticator == nil, name == healthpb.Health_Check_FullMethodName, name == healthpb.Health_Watch_FullMethodName:
		return ctx, nil
	}
	shown, err := credentialsOf(ctx)
	if err != nil {
		return nil, err
	}
	return i.identified(ctx, shown)
}

// identified returns the context with who it is that shows the credentials.
func (i *Interceptors) identified(ctx context.Context, shown access.Credentials) (context.Context, error) {
	pass, err := i.Authenticator.Identify(ctx, shown)
	if err != nil {
		return nil, err
	}
	if pass.Anonymous() && !i.Rights.admitsAnonymous() {
		return nil, errNoCredentials
	}
	return withPass(access.With(ctx, pass.Identity), &pass), nil
}

// Operator returns the status with which somebody is refused what is about the process
// as a whole and comes in other ways than requests of gRPC, such as metrics; nil for
// those who may administer every resource. They show a certificate that TLS has
// verified (nil: none) and the values of Authorization headers. The context says who
// they are as that of a request of gRPC does: the address is its peer, and user-agent
// is in its metadata. What they want, as in "GET /metrics", is for the audit log, which
// gets to know of those that are denied it.
func (i *Interceptors) Operator(ctx context.Context, what string, certificate *x509.Certificate, authorization []string) error {
	identity, err := i.operator(ctx, certificate, authorization)
	if err == nil {
		return nil
	}
	if err = i.countRefusal(ctx, err); apierr.ReasonOf(err) == apierr.ReasonRateLimited {
		i.Limits.Refuse(ctx, err)
	}
	err = apierr.Status(ctx, err)
	i.auditOperator(ctx, &Call{Identity: identity}, what, err)
	return err
}

// operator returns who somebody is, as far as that is known, and why they are refused.
func (i *Interceptors) operator(ctx context.Context, certificate *x509.Certificate, authorization []string) (access.Identity, error) {
	ctx, err := i.known(ctx, certificate, authorization)
	if err != nil {
		return access.Identity{}, err
	}
	return access.From(ctx), i.Rights.May(ctx, policy.Admin, EveryResource, object.Scope{})
}

// known returns the context with who it is that shows a certificate (nil: none) and the
// values of Authorization headers.
func (i *Interceptors) known(ctx context.Context, certificate *x509.Certificate, authorization []string) (context.Context, error) {
	if i.Authenticator == nil {
		return ctx, nil
	}
	token, err := bearer(authorization)
	if err != nil {
		return nil, err
	}
	return i.identified(ctx, access.Credentials{Certificate: certificate, Bearer: token})
}

// credentialsOf returns what a request shows.
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
					return shown, &access.RefusedError{Message: "the client certificate cannot be read", Err: err}
				}
				shown.Certificate = certificate
			}
		}
	}
	var err error
	shown.Bearer, err = bearer(metadata.ValueFromIncomingContext(ctx, "authorization"))
	return shown, err
}

// bearer returns the token of the values of an Authorization header (RFC 6750,
// section 2.1). The interceptor's own function takes the first of several.
func bearer(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		scheme, token, _ := strings.Cut(values[0], " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "bearer") && token != "" {
			return token, nil
		}
		return "", &access.RefusedError{Message: `the Authorization header must be "Bearer" and a token`}
	}
	return "", &access.RefusedError{Message: "there is more than one Authorization header"}
}

type passKey struct{}

// withPass returns a context of a request whose credentials are worth the pass.
func withPass(ctx context.Context, pass *access.Pass) context.Context {
	return context.WithValue(ctx, passKey{}, pass)
}

// PassOf returns what the credentials of a request are worth: what never ends, where
// nobody was asked for any.
func PassOf(ctx context.Context) *access.Pass {
	if pass, ok := ctx.Value(passKey{}).(*access.Pass); ok {
		return pass
	}
	return everlasting
}

var everlasting = &access.Pass{}

// recheck has the credentials of a stream looked at again with each message that
// comes over it. Where nothing comes but the request there is nothing to look at again.
// Watches are not behind it: they are sessions, and are looked at as such.
func recheck(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if !info.IsClientStream {
		return handler(srv, stream)
	}
	return handler(srv, rechecked{stream, PassOf(stream.Context())})
}

type rechecked struct {
	grpc.ServerStream
	pass *access.Pass
}

// RecvMsg implements grpc.ServerStream.
func (r rechecked) RecvMsg(m any) error {
	if err := r.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return r.pass.Check()
}
