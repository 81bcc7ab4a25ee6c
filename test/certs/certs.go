// Package certs creates certificates for tests: real ones in real files, issued by a
// separate authority for each test.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	// File is the path of its certificate (PEM).
	File string

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates an authority, with its file in the test's folder.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{File: filepath.Join(t.TempDir(), "ca.pem"), key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "authority " + serial(t).String()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	Write(t, a.File, a.PEM())
	return a
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Pool returns a pool that contains only the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Subject is the subject of a certificate. All fields are optional.
type Subject struct {
	CommonName string
	DNSNames   []string
	URIs       []string
	IPs        []string
	NotAfter   time.Time // default: an hour from now
}

// Server is the subject of servers in tests. Clients reach them by address or as
// localhost.
var Server = Subject{CommonName: "fanoutd", DNSNames: []string{"localhost"}, IPs: []string{"127.0.0.1", "::1"}}

// Pair is a certificate and its key.
type Pair struct{ Cert, Key []byte } // PEM

// Issue issues a certificate for servers and clients.
func (a *Authority) Issue(t testing.TB, s Subject) Pair {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: s.CommonName}, DNSNames: s.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: s.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if s.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	for _, text := range s.URIs {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	for _, text := range s.IPs {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(text))
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}
}

// TLS returns the pair as a tls.Certificate.
func (p Pair) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Files has the paths of a pair.
type Files struct{ Cert, Key string }

// Files writes the pair into the test's folder.
func (p Pair) Files(t testing.TB) Files {
	t.Helper()
	dir := t.TempDir()
	f := Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	f.Replace(t, p)
	return f
}

// Replace writes another pair to the files.
func (f Files) Replace(t testing.TB, p Pair) {
	t.Helper()
	Write(t, f.Cert, p.Cert)
	Write(t, f.Key, p.Key)
}

// Write replaces a file atomically: a reader sees the old or the new content.
func Write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
