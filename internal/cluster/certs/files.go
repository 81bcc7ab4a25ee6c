package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// Files are the paths of a member's files (PEM). They may be those of a [Directory], or come from
// an authority of the operator's.
type Files struct {
	CA   string // the authorities of the members
	Cert string // with the certificates that lead to its authority appended
	Key  string
}

// Status describes the certificate of a member.
type Status struct {
	Leaf *x509.Certificate

	// NotAfter is when others begin to refuse the certificate: when it expires, or an authority
	// that it needs.
	NotAfter time.Time
}

// Read reads the files and checks that the key belongs to the certificate, and that one of the
// authorities has signed it for servers and for clients. It succeeds for a certificate that has
// expired; see [Status.Valid].
func (f Files) Read(now time.Time) (Status, error) {
	s, _, err := f.read(now)
	return s, err
}

func (f Files) read(now time.Time) (Status, contents, error) {
	var c contents
	content, err := os.ReadFile(f.CA)
	if err != nil {
		return Status{}, c, fmt.Errorf("cannot read the authorities of the cluster: %w", err)
	}
	authorities, err := parseCertificates(content)
	if err != nil {
		return Status{}, c, fmt.Errorf("%s: %w", f.CA, err)
	}
	c.authorities = x509.NewCertPool()
	for _, a := range authorities {
		c.authorities.AddCert(a)
	}
	if c.pair, err = tls.LoadX509KeyPair(f.Cert, f.Key); err != nil {
		return Status{}, c, fmt.Errorf("cannot read the certificate %s with the key %s: %w", f.Cert, f.Key, err)
	}
	s := Status{Leaf: c.pair.Leaf}
	if s.NotAfter, err = c.end(now); err != nil {
		return Status{}, c, fmt.Errorf("%s: the authorities in %s do not accept the certificate of %q: %w", f.Cert, f.CA, s.Leaf.Subject.CommonName, err)
	}
	return s, c, nil
}

// contents is what the files contain.
type contents struct {
	pair        tls.Certificate
	authorities *x509.CertPool
}

// end returns when the certificate ceases to be accepted. If it is not valid now, the
// certificate is verified for the time at which it began.
func (c contents) end(now time.Time) (end time.Time, err error) {
	between := x509.NewCertPool()
	for _, der := range c.pair.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return end, err
		}
		between.AddCert(cert)
	}
	// Verify accepts one usage of several.
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		options := x509.VerifyOptions{Roots: c.authorities, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
		chains, err := c.pair.Leaf.Verify(options)
		if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
			options.CurrentTime = c.pair.Leaf.NotBefore
			chains, err = c.pair.Leaf.Verify(options)
		}
		if err != nil {
			return end, err
		}
		end = time.Time{}
		for _, chain := range chains {
			if last := earliest(chain); last.After(end) {
				end = last
			}
		}
	}
	return end, nil
}

// earliest returns when the first certificate of a chain expires.
func earliest(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

// Valid returns an error if others refuse the certificate because of the time.
func (s Status) Valid(now time.Time) error {
	switch {
	case now.Before(s.Leaf.NotBefore):
		return fmt.Errorf("the certificate of %q is valid only from %s on; check the clock", s.Leaf.Subject.CommonName, date(s.Leaf.NotBefore))
	case !now.Before(s.NotAfter):
		return fmt.Errorf("the certificate of %q has expired on %s", s.Leaf.Subject.CommonName, date(s.NotAfter))
	}
	return nil
}

// DaysLeft returns the number of whole days until the certificate expires. It is negative afterwards.
func (s Status) DaysLeft(now time.Time) int { return DaysUntil(s.NotAfter, now) }

// DaysUntil returns the number of whole days from now until end. It is negative afterwards.
func DaysUntil(end, now time.Time) int { return int(math.Floor(end.Sub(now).Hours() / 24)) }

// parseCertificates parses at least one certificate. Other PEM blocks are an error, because one of
// them would be a key in a file that others may read.
func parseCertificates(content []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("the file contains a %s, want certificates only", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse a certificate: %w", err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("the file contains no certificate")
	}
	return all, nil
}
