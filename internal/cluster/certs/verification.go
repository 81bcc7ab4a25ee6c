package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Verification says how a member recognizes the others, beside the authority that signed their
// certificates. Its fields correspond to those of etcd's transport.TLSInfo, for the peer port and
// the client port:
//
//	ServerName           ServerName
//	AllowedNames         AllowedHostnames
//	(always)             ClientCertAuth and SkipClientSANVerify: true
//
// AllowedHostnames restricts both directions: etcd checks it as a server and as a client.
// SkipClientSANVerify turns the look-ups of etcd off; see the documentation of the package.
type Verification struct {
	// ServerName is the name that the certificate of a called member must contain. If it is
	// empty, that is the host at which the member is called.
	ServerName string

	// AllowedNames are names and addresses of which each certificate must contain one.
	AllowedNames []string
}

// Verification returns how members with certificates of this kind recognize each other. With
// [MemberName], that is the only name that matters. Certificates of the operator's own authority,
// which may sign for others than members, need not contain it; then each must contain one of hosts,
// the hosts of all members.
func (s Status) Verification(hosts []string) Verification {
	if s.Leaf.VerifyHostname(MemberName) == nil {
		return Verification{ServerName: MemberName, AllowedNames: []string{MemberName}}
	}
	return Verification{AllowedNames: hosts}
}

// check verifies a certificate whose signatures have been verified.
func (v Verification) check(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the peer has no certificate")
	}
	return v.allows(state.PeerCertificates[0])
}

func (v Verification) allows(leaf *x509.Certificate) error {
	for _, name := range v.AllowedNames {
		if leaf.VerifyHostname(name) == nil {
			return nil
		}
	}
	return fmt.Errorf("the certificate of %q is not one of a member: it contains none of the names %q", leaf.Subject.CommonName, v.AllowedNames)
}

// Server returns the configuration of a listener that only members may call. Each connection uses the
// present files, also the authorities.
func (f Files) Server(v Verification) *tls.Config {
	base := &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, ClientAuth: tls.RequireAndVerifyClientCert, VerifyConnection: v.check}
	listener := base.Clone()
	listener.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		_, present, err := f.read(time.Now())
		if err != nil {
			return nil, err
		}
		c := base.Clone()
		c.Certificates, c.ClientCAs = []tls.Certificate{present.pair}, present.authorities
		return c, nil
	}
	return listener
}

// Client returns the configuration of connections to other members. Each connection uses the present
// certificate; the authorities are those of now, as etcd's are. gRPC, and so etcd's client, replaces
// the ServerName by the authority of its requests: give it grpc.WithAuthority, too.
func (f Files) Client(v Verification) (*tls.Config, error) {
	_, present, err := f.read(time.Now())
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: present.authorities, ServerName: v.ServerName, VerifyConnection: v.check,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
			return &pair, err
		},
	}, nil
}
