package access

import (
	"crypto/x509"
)

// certificatePass returns the pass for a certificate that TLS has verified. It has no
// groups: authorities verify names carefully, and the rest of a certificate less so.
func certificatePass(c *x509.Certificate) (Pass, error) {
	pass := Pass{Identity: Identity{Name: certificateName(c), Method: Certificate}, Expires: c.NotAfter}
	if err := pass.Validate(); err != nil {
		return Pass{}, &RefusedError{Message: "the certificate has no usable SPIFFE ID, DNS name or common name", Fault: FaultCertificate, Err: err}
	}
	// TLS checked the expiry when the connection began, which may be long ago.
	return pass, pass.Check()
}

// certificateName returns the SPIFFE ID of a certificate, or else its first DNS name,
// or else its common name.
func certificateName(c *x509.Certificate) string {
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
