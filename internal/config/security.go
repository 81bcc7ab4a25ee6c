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

// The values of pprof.
const (
	PprofAlways   = "always"
	PprofLoopback = "loopback" // only if other machines cannot reach admin-listen
	PprofNever    = "never"
)

// ServesProfiles reports whether the HTTP service serves Go's profiles.
func (c *Config) ServesProfiles() bool {
	return c.Pprof == PprofAlways || c.Pprof == PprofLoopback && !isOpen(c.AdminListen)
}

// transport validates the settings of TLS, and refuses plain text on reachable addresses.
func (v *validator) transport(c *Config) {
	v.oneOf("tls-client-auth", c.TLSClientAuth, ClientAuthOptional, ClientAuthRequired)
	v.together("tls-cert-file", c.TLSCertFile, "tls-key-file", c.TLSKeyFile)
	if c.TLSClientCAFile != "" && c.TLSCertFile == "" {
		v.add("tls-client-ca-file", "is set, but tls-cert-file is not: client certificates require TLS")
	}
	if c.TLSClientAuth == ClientAuthRequired && c.TLSClientCAFile == "" {
		v.add("tls-client-auth", "is required, but tls-client-ca-file is not set")
	}
	if c.Insecure {
		return
	}
	const instead = "listen on a loopback address such as 127.0.0.1, or set insecure if the network is protected"
	if c.TLSCertFile == "" {
		for _, l := range []struct{ key, address string }{{"listen", c.Listen}, {"admin-listen", c.AdminListen}} {
			if isOpen(l.address) {
				v.add(l.key, "other machines can reach %q, which is served in plain text: "+
					"set tls-cert-file and tls-key-file, %s", l.address, instead)
			}
		}
	}
	if isOpen(c.EmbeddedEtcdListen) {
		v.add("embedded-etcd-listen", "other machines can reach %q, which is served without authentication: %s", c.EmbeddedEtcdListen, instead)
	}
}

// isOpen reports whether other machines may reach an address. Names other than localhost may
// resolve to any address. Invalid addresses are reported elsewhere.
func isOpen(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && host != "localhost" && !isLoopback(host)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// authentication validates the settings of tokens and JWTs.
func (v *validator) authentication(c *Config) {
	if c.JWTIssuer == "" {
		v.needs("jwt-issuer", setting{"jwt-audience", c.JWTAudience}, setting{"jwt-jwks-file", c.JWTJWKSFile}, setting{"jwt-ca-file", c.JWTCAFile})
		return
	}
	if c.JWTAudience == "" {
		v.add("jwt-audience", "must be set with jwt-issuer, so that tokens for other services are rejected")
	}
	if c.JWTNameClaim == "" {
		v.add("jwt-name-claim", "must not be empty")
	}
	if c.JWTJWKSFile == "" {
		v.check("jwt-issuer", checkIssuer(c.JWTIssuer))
	} else if c.JWTCAFile != "" {
		v.add("jwt-ca-file", "cannot be set with jwt-jwks-file, because no keys are downloaded from the issuer")
	}
}

// checkIssuer validates the URL of an issuer from which keys are downloaded.
func checkIssuer(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("invalid URL %q (want for example https://login.example.com/realm; any text is allowed with jwt-jwks-file)", s)
	case u.Scheme == "https", u.Scheme == "http" && (u.Hostname() == "localhost" || isLoopback(u.Hostname())):
		return nil
	}
	return fmt.Errorf("%q must begin with https://, so that the keys cannot be replaced in transit", s)
}

// together validates that both settings are set, or neither.
func (v *validator) together(key, value, other, otherValue string) {
	if (value == "") != (otherValue == "") {
		if value == "" {
			key, other = other, key
		}
		v.add(key, "is set, but %s is not: they must be set together", other)
	}
}
