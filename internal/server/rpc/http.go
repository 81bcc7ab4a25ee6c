package rpc

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// AdmitHTTP decides about a request over HTTP that does not reach a gRPC method, or has not yet. It
// authenticates the caller and then calls allow, with the identity in the context. The error is the
// status that refuses the request. The context has the address and the user agent where a gRPC request
// has them: in its peer and its metadata.
func (i *Interceptors) AdmitHTTP(ctx context.Context, r access.HTTPRequest, allow func(context.Context) error) error {
	c := &Call{}
	ctx = context.WithValue(ctx, callKey{}, c)
	in, err := i.known(ctx, r)
	if err == nil {
		c.Identity = access.From(in)
		err = allow(in)
	} else {
		err = i.countRefusal(ctx, err)
	}
	if err = i.Finish(ctx, err); err != nil {
		i.Record(ctx, c, apierr.Clip(r.Name, apierr.MaxEchoBytes), err)
	}
	return err
}

// known returns the context with the identity that the credentials of a request prove.
func (i *Interceptors) known(ctx context.Context, r access.HTTPRequest) (context.Context, error) {
	if i.Authenticator == nil {
		return ctx, nil
	}
	token, err := bearer(r.Authorization)
	if err != nil {
		return nil, err
	}
	return i.identified(ctx, access.Credentials{Certificate: r.Certificate, Bearer: token})
}
