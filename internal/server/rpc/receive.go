package rpc

import (
	"context"
	"crypto/x509"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Receive authenticates a request over HTTP and reserves the memory of its body, before the
// body is read. done releases the memory. The error is a status. Context and arguments are
// those of [Interceptors.Operator].
func (i *Interceptors) Receive(ctx context.Context, what string, certificate *x509.Certificate, authorization []string, bytes int64) (done func(), err error) {
	c := &Call{}
	ctx = context.WithValue(ctx, callKey{}, c)
	memory, err := i.receive(ctx, c, certificate, authorization, bytes)
	if err = i.Finish(ctx, err); err != nil {
		i.auditOperator(ctx, c, what, err)
		return nil, err
	}
	return memory.Release, nil
}

func (i *Interceptors) receive(ctx context.Context, c *Call, certificate *x509.Certificate, authorization []string, bytes int64) (*quota.Reservation, error) {
	in, err := i.known(ctx, certificate, authorization)
	if err != nil {
		return nil, i.countRefusal(ctx, err)
	}
	c.Identity = access.From(in)
	return i.Limits.ReserveRequest(in, bytes)
}
