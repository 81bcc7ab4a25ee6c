package embedded

import (
	"crypto/tls"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// TLSFiles are the files with which the members of a cluster recognize each other, in PEM. Each member
// presents the certificate as a server and as a client, and accepts only certificates of the
// authority. Without files, the members talk in plain text.
type TLSFiles struct{ CA, Cert, Key string }

// info returns the files in etcd's form.
func (f TLSFiles) info() transport.TLSInfo {
	if f == (TLSFiles{}) {
		return transport.TLSInfo{}
	}
	// With an authority, etcd demands certificates of its clients. ClientCertAuth would also make them users of
	// etcd: TestClusterWithTLS finds that etcd panics, because it takes
	// the callers of fanoutd for its own.
	return transport.TLSInfo{CertFile: f.Cert, KeyFile: f.Key, TrustedCAFile: f.CA}
}

// scheme returns the scheme of URLs of members.
func (f TLSFiles) scheme() string {
	if f == (TLSFiles{}) {
		return "http"
	}
	return "https"
}

// Server returns the configuration for connections from members, or nil without files.
func (f TLSFiles) Server() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	return f.info().ServerConfig()
}

// Client returns the configuration for connections to members, or nil without files.
func (f TLSFiles) Client() (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	return f.info().ClientConfig()
}
