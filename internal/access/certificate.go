package access

import (
	"context"
	"crypto/x509"
)

// ofCertificate returns what a certificate that TLS has verified is worth. Its groups
// are none: authorities look closely at names, and less so at the rest of a
// certificate.
func ofCertificate(c *x509.Certificate) (Pass, error) {
	pass := Pass{Identity: Identity{Name: nameOf(c), Method: Certificate}, Expires: c.NotAfter}
	if err := pass.Validate(); err != nil {
		return Pass{}, &RefusedError{Message: "the certificate has no SPIFFE ID, DNS name or common name that could be used", Err: err}
	}
	// TLS has looked when the connection began, which may be long ago.
	return pass, pass.Check()
}

// nameOf returns the name that a certificate is for: its SPIFFE ID, or else its first
// DNS name, or else its common name.
func nameOf(c *x509.Certificate) string {
	for _, uri := range c.URIs {
		if uri.Scheme == "spiffe" {
			return uri.String()
		}
	}
	if len(c.DNSNames) > 0 {
		return c.DNSNames[0]
	}
	return c.Subject.CommonName
}

type behalfKey struct{}

// OnBehalf returns a context of a request that is made for somebody who has shown a
// certificate, which TLS has verified. Who speaks for others says so to the server in
// the same process.
func OnBehalf(ctx context.Context, c *x509.Certificate) context.Context {
	return context.WithValue(ctx, behalfKey{}, c)
}

// BehalfOf returns the certificate of the one whom the request with this context is
// made for, or nil.
func BehalfOf(ctx context.Context) *x509.Certificate {
	c, _ := ctx.Value(behalfKey{}).(*x509.Certificate)
	return c
}
