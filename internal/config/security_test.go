package config_test

import (
	"strings"
	"testing"
)

// Plain text on an address that other machines can reach requires insecure.
func TestOpenAddressesNeedTLS(t *testing.T) {
	const tls = "tls-cert-file: a\ntls-key-file: b\n"
	for address, open := range map[string]bool{
		"127.0.0.1:1": false, "127.3.2.1:1": false, "'[::1]:1'": false, "localhost:1": false, "'[::ffff:127.0.0.1]:1'": false,
		":1": true, "0.0.0.0:1": true, "'[::]:1'": true, "10.0.0.1:1": true, "'[fe80::1]:1'": true, "fanoutd:1": true, "localhost.:1": true, "'[::ffff:0.0.0.0]:1'": true,
	} {
		for _, key := range []string{"listen", "admin-listen", "embedded-etcd-listen"} {
			text := key + ": " + address + "\n"
			_, problems := read(t, text)
			if (problems != "") != open || open && !strings.Contains(problems, key+": other machines can reach") {
				t.Errorf("%s: %q", text, problems)
			}
			if _, problems := read(t, text+"insecure: true\n"); problems != "" {
				t.Errorf("%s with insecure: %s", text, problems)
			}
			// embedded-etcd-listen does not support TLS.
			if _, problems := read(t, text+tls); (problems != "") != (open && key == "embedded-etcd-listen") {
				t.Errorf("%s with TLS: %s", text, problems)
			}
		}
	}
}

// Profiles are served to other machines only if the operator asks for them.
func TestProfilesAreLocalByDefault(t *testing.T) {
	for text, want := range map[string]bool{
		"": true,
		"insecure: true\nadmin-listen: 0.0.0.0:1":                  false,
		"insecure: true\nadmin-listen: 0.0.0.0:1\npprof: loopback": false,
		"insecure: true\nadmin-listen: 0.0.0.0:1\npprof: always":   true,
		"admin-listen: localhost:1":                                true,
		"pprof: never":                                             false,
	} {
		c, problems := read(t, text)
		if got := c.ServesProfiles(); got != want || problems != "" {
			t.Errorf("%q: got %v, want %v %s", text, got, want, problems)
		}
	}
	if _, problems := read(t, "pprof: 'true'"); !strings.Contains(problems, "pprof: must be one of always, loopback, never") {
		t.Errorf("got %q", problems)
	}
}

func TestInconsistentSecuritySettings(t *testing.T) {
	const jwt = "jwt-issuer: https://login.example.com\njwt-audience: a\n"
	for text, want := range map[string]string{
		"tls-cert-file: a":                                  "tls-cert-file: is set, but tls-key-file is not",
		"tls-key-file: a":                                   "tls-key-file: is set, but tls-cert-file is not",
		"tls-client-ca-file: a":                             "tls-client-ca-file: is set, but tls-cert-file is not",
		"tls-client-auth: none":                             "tls-client-auth: must be one of optional, required",
		"tls-client-auth: required":                         "tls-client-auth: is required, but tls-client-ca-file",
		"jwt-audience: a":                                   "jwt-audience: is set, but jwt-issuer is not",
		"jwt-jwks-file: a":                                  "jwt-jwks-file: is set, but jwt-issuer is not",
		"jwt-issuer: https://a":                             "jwt-audience: must be set with jwt-issuer",
		jwt + "jwt-name-claim: ''":                          "jwt-name-claim: must not be empty",
		jwt + "jwt-jwks-file: a\njwt-ca-file: b":            "jwt-ca-file: cannot be set with jwt-jwks-file",
		"jwt-audience: a\njwt-issuer: http://a.example.com": `jwt-issuer: "http://a.example.com" must begin with https`,
		"jwt-audience: a\njwt-issuer: login":                `jwt-issuer: invalid URL "login"`,
		"jwt-audience: a\njwt-issuer: https://u:p@a":        `jwt-issuer: invalid URL "https://u:p@a"`,
	} {
		if _, problems := read(t, text); !strings.Contains(problems, want) {
			t.Errorf("%s: got %q, want %q", text, problems, want)
		}
	}
	for _, text := range []string{
		jwt, "jwt-audience: a\njwt-issuer: login\njwt-jwks-file: a", "jwt-audience: a\njwt-issuer: http://127.0.0.1:1/a",
		"tls-cert-file: a\ntls-key-file: b\ntls-client-ca-file: c\ntls-client-auth: required",
	} {
		if _, problems := read(t, text); problems != "" {
			t.Errorf("%s: %s", text, problems)
		}
	}
}
