package embedded

import (
	"crypto/tls"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"google.golang.org/grpc"
)

// TLSFiles are the files with which the members of a cluster recognize each other, in PEM. Each member
// presents the certificate as a server and as a client, and accepts only certificates of the
// authority that contain one of the names. Without files, the members talk in plain text.
type TLSFiles struct {
	CA, Cert, Key string

	// ServerName is the name that a member must have when it is called; empty: the host at which it is called.
	// AllowedNames are names of which each certificate must contain one, in both directions. Package certs says
	// why.
	ServerName   string
	AllowedNames []string
}

// none reports whether the members talk in plain text.
func (f TLSFiles) none() bool { return f.Cert == "" }

// info returns the files in etcd's form.
func (f TLSFiles) info() transport.TLSInfo {
	if f.none() {
		return transport.TLSInfo{}
	}
	// With an authority, etcd demands certificates of its clients. ClientCertAuth would also make them users of
	// etcd: TestClusterWithTLS finds that etcd panics, because it takes
	// the callers of fanoutd for its own.
	return transport.TLSInfo{
		CertFile: f.Cert, KeyFile: f.Key, TrustedCAFile: f.CA,
		ServerName: f.ServerName, AllowedHostnames: f.AllowedNames,
		// Otherwise etcd looks up the names of the caller, and compares the addresses with that of the caller.
		SkipClientSANVerify: true,
	}
}

// scheme returns the scheme of URLs of members.
func (f TLSFiles) scheme() string {
	if f.none() {
		return "http"
	}
	return "https"
}

// Client returns the configuration for connections to clients' ports of members, or nil without files.
// gRPC ignores its ServerName: see authority.
func (f TLSFiles) Client() (*tls.Config, error) {
	if f.none() {
		return nil, nil
	}
	return f.info().ClientConfig()
}

// authority returns the options with which gRPC verifies the name of a member.
func (f TLSFiles) authority() []grpc.DialOption {
	if f.ServerName == "" {
		return nil
	}
	return []grpc.DialOption{grpc.WithAuthority(f.ServerName)}
}
