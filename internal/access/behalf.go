package access

import (
	"context"
	"crypto/x509"
)

// The context keys of what a gateway in this process knows about its requests.
type (
	behalfKey   struct{}
	answeredKey struct{}
)

// OnBehalf returns a context for a request that a gateway in this process makes for a
// client. c is the client's certificate, which TLS has verified.
func OnBehalf(ctx context.Context, c *x509.Certificate) context.Context {
	return context.WithValue(ctx, behalfKey{}, c)
}

// BehalfOf returns the certificate that was passed to [OnBehalf], or nil.
func BehalfOf(ctx context.Context) *x509.Certificate {
	c, _ := ctx.Value(behalfKey{}).(*x509.Certificate)
	return c
}

// UntilAnswered returns a context for a request that a gateway in this process makes. answered
// is done when the gateway has written the answer and holds it no longer. The context of the
// request may be done earlier: if the client has gone, the gateway may still be encoding.
func UntilAnswered(ctx, answered context.Context) context.Context {
	return context.WithValue(ctx, answeredKey{}, answered)
}

// AnsweredOf returns the context that was passed to [UntilAnswered], or otherwise ctx.
func AnsweredOf(ctx context.Context) context.Context {
	if answered, ok := ctx.Value(answeredKey{}).(context.Context); ok {
		return answered
	}
	return ctx
}
