package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
)

// The values of tls-client-auth.
const (
	ClientAuthOptional = "optional"
	ClientAuthRequired = "required"
)

// transport checks who can read along.
func (v *validator) transport(c *Config) {
	v.oneOf("tls-client-auth", c.TLSClientAuth, ClientAuthOptional, ClientAuthRequired)
	v.together("tls-cert-file", c.TLSCertFile, "tls-key-file", c.TLSKeyFile)
	if c.TLSClientCAFile != "" && c.TLSCertFile == "" {
		v.add("tls-client-ca-file", "is set, but tls-cert-file is not: without TLS clients show no certificates")
	}
	if c.TLSClientAuth == ClientAuthRequired && c.TLSClientCAFile == "" {
		v.add("tls-client-auth", "is required, but tls-client-ca-file does not say whose certificates are good")
	}
	if c.Insecure {
		return
	}
	const instead = "listen on a loopback address such as 127.0.0.1, or set insecure if something else protects the network"
	if c.TLSCertFile == "" {
		for _, l := range []struct{ key, address string }{{"listen", c.Listen}, {"admin-listen", c.AdminListen}} {
			if isOpen(l.address) {
				v.add(l.key, "other machines could reach %q, and would read and write everything in plain text: "+
					"set tls-cert-file and tls-key-file, %s", l.address, instead)
			}
		}
	}
	if isOpen(c.EmbeddedEtcdListen) {
		v.add("embedded-etcd-listen", "other machines could reach %q, where etcd's protocol is served unprotected: %s", c.EmbeddedEtcdListen, instead)
	}
}

// isOpen reports whether other machines may reach an address. Names other than
// localhost may lead anywhere. An address that is none, or not good, is refused elsewhere.
func isOpen(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && host != "localhost" && !isLoopback(host)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// callers checks how callers show who they are.
func (v *validator) callers(c *Config) {
	if c.JWTIssuer == "" {
		for _, s := range []struct{ key, value string }{
			{"jwt-audience", c.JWTAudience}, {"jwt-jwks-file", c.JWTJWKSFile}, {"jwt-ca-file", c.JWTCAFile},
		} {
			if s.value != "" {
				v.add(s.key, "is set, but jwt-issuer is not")
			}
		}
		return
	}
	if c.JWTAudience == "" {
		v.add("jwt-audience", "must be set with jwt-issuer: tokens that are for others must not do here")
	}
	if c.JWTNameClaim == "" {
		v.add("jwt-name-claim", "must not be empty")
	}
	if c.JWTJWKSFile == "" {
		v.check("jwt-issuer", checkIssuer(c.JWTIssuer))
	} else if c.JWTCAFile != "" {
		v.add("jwt-ca-file", "is set, but jwt-jwks-file is too, so the issuer is not asked for its keys")
	}
}

// checkIssuer checks an address from which keys can be got.
func checkIssuer(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q is not an address such as https://login.example.com/realm; with jwt-jwks-file it need not be one", s)
	case u.Scheme == "https", u.Scheme == "http" && (u.Hostname() == "localhost" || isLoopback(u.Hostname())):
		return nil
	}
	return fmt.Errorf("%q must begin with https://: whoever can change the keys on the way can be anybody", s)
}

// together checks that of two settings both are set or none.
func (v *validator) together(key, value, other, otherValue string) {
	if (value == "") != (otherValue == "") {
		if value == "" {
			key, other = other, key
		}
		v.add(key, "is set, but %s is not: they must be set together", other)
	}
}
