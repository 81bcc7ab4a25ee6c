package access

import "crypto/x509"

// HTTPRequest is a request over HTTP whose caller is to be authenticated.
type HTTPRequest struct {
	Name          string            // such as "GET /metrics", for the audit log
	Certificate   *x509.Certificate // that TLS has verified; nil: none
	Authorization []string          // the values of the headers
}
