package access

import (
	"context"
	"crypto/x509"
)

// Behalf is what a gateway in this process knows about a request that it makes for a client.
type Behalf struct {
	// Certificate is the certificate of the client, which TLS has verified. Nil: none.
	Certificate *x509.Certificate

	// Answered is done when the gateway has written the answer and holds it no longer. The context of
	// the request may be done earlier: if the client has gone, the gateway may still be encoding.
	Answered context.Context
}

type behalfKey struct{}

// OnBehalf returns a context for a request that the gateway makes.
func OnBehalf(ctx context.Context, b Behalf) context.Context {
	return context.WithValue(ctx, behalfKey{}, b)
}

// BehalfOf returns what was passed to [OnBehalf].
func BehalfOf(ctx context.Context) Behalf {
	b, _ := ctx.Value(behalfKey{}).(Behalf)
	return b
}
