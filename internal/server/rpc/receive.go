package rpc

import (
	"context"
	"crypto/x509"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Receive says whether the body of a request may be read that comes in another way than
// over gRPC, and will take so many bytes of memory: whoever makes it is let in, and there
// is room, which is given back by calling done. The error is a status. Context and
// arguments are those of [Server.Operator].
func (i *Interceptors) Receive(ctx context.Context, what string, certificate *x509.Certificate, authorization []string, bytes int64) (done func(), err error) {
	c := &Call{}
	ctx = context.WithValue(ctx, CallKey{}, c)
	room, err := i.receive(ctx, c, certificate, authorization, bytes)
	if err = i.Finish(ctx, err); err != nil {
		i.auditOperator(ctx, c, what, err)
		return nil, err
	}
	return room.Release, nil
}

func (i *Interceptors) receive(ctx context.Context, c *Call, certificate *x509.Certificate, authorization []string, bytes int64) (*quota.Reservation, error) {
	in, err := i.known(ctx, certificate, authorization)
	if err != nil {
		return nil, i.countRefusal(ctx, err)
	}
	c.Identity = access.From(in)
	return i.Limits.ReserveRequest(in, bytes)
}
