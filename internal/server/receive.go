package server

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
func (s *Server) Receive(ctx context.Context, what string, certificate *x509.Certificate, authorization []string, bytes int64) (done func(), err error) {
	c := &call{}
	ctx = context.WithValue(ctx, callKey{}, c)
	room, err := s.receive(ctx, c, certificate, authorization, bytes)
	if err = s.edge(ctx, err); err != nil {
		s.auditOperator(ctx, c, what, err)
		return nil, err
	}
	return room.Release, nil
}

func (s *Server) receive(ctx context.Context, c *call, certificate *x509.Certificate, authorization []string, bytes int64) (*quota.Reservation, error) {
	in, err := s.known(ctx, certificate, authorization)
	if err != nil {
		return nil, s.countRefusal(ctx, err)
	}
	c.identity = access.From(in)
	return s.limits.ReserveRequest(in, bytes)
}
