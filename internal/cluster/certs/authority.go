package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Authority signs the certificates of one cluster's members.
type Authority struct {
	key *ecdsa.PrivateKey

	// roots are self-signed. The key belongs to the first one. The others are older
	// authorities that members still accept.
	roots []*x509.Certificate

	// cross is the certificate of the present authority that the one before it has signed.
	// Without an overlap it is nil.
	cross *x509.Certificate
}

// Pair is a certificate, followed by those that lead to its authority, and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// clockSkew is how far back certificates begin, for machines whose clocks are late.
const clockSkew = time.Hour

// NewAuthority creates an authority.
func NewAuthority(now time.Time, lifetime time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create the authority's key: %w", err)
	}
	root := rootTemplate(now, lifetime)
	signed, err := sign(root, root, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("create the authority: %w", err)
	}
	return &Authority{key: key, roots: []*x509.Certificate{signed}}, nil
}

// rootTemplate describes an authority. Its name is unique, because authorities of one cluster
// overlap.
func rootTemplate(now time.Time, lifetime time.Duration) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"fanoutd cluster"}, CommonName: "authority " + rand.Text()[:10]},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Root returns the certificate of the authority.
func (a *Authority) Root() *x509.Certificate { return a.roots[0] }

// Issue creates a key and a certificate for a member. The certificate does not outlive the authority.
func (a *Authority) Issue(m Member, now time.Time, lifetime time.Duration) (Pair, *x509.Certificate, error) {
	if err := m.validate(); err != nil {
		return Pair{}, nil, err
	}
	end := now.Add(lifetime)
	if last := a.Root().NotAfter; end.After(last) {
		end = last
	}
	if !now.Before(end) {
		return Pair{}, nil, fmt.Errorf("the authority has expired on %s", date(end))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("create the key of %s: %w", m.Name, err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: a.Root().Subject.Organization, CommonName: m.Name},
		NotBefore: now.Add(-clockSkew), NotAfter: end,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	template.DNSNames, template.IPAddresses = m.alternatives()
	leaf, err := sign(template, a.Root(), &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("create the certificate of %s: %w", m.Name, err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return Pair{}, nil, err
	}
	chain := []*x509.Certificate{leaf}
	if a.overlaps(now) {
		chain = append(chain, a.cross)
	}
	return Pair{Cert: encodeCertificates(chain), Key: private}, leaf, nil
}

// overlaps reports whether members that accept only the previous authority accept this one.
func (a *Authority) overlaps(now time.Time) bool {
	return a.cross != nil && now.Before(a.cross.NotAfter)
}

// Renew returns a new authority, with a new key, that overlaps with this one.
func (a *Authority) Renew(now time.Time, lifetime time.Duration) (*Authority, error) {
	if a.overlaps(now) {
		return nil, fmt.Errorf("the overlap with the previous authority lasts until %s; restart all members, then end it with --end-overlap",
			date(a.cross.NotAfter))
	}
	renewed, err := NewAuthority(now, lifetime)
	if err != nil || !now.Before(a.Root().NotAfter) {
		return renewed, err // no member accepts this one any more
	}
	root := renewed.Root()
	template := *root
	template.SerialNumber = nil // the other certificate has it
	if template.NotAfter.After(a.Root().NotAfter) {
		template.NotAfter = a.Root().NotAfter
	}
	if renewed.cross, err = sign(&template, a.Root(), &renewed.key.PublicKey, a.key); err != nil {
		return nil, fmt.Errorf("sign the new authority with the old one: %w", err)
	}
	renewed.roots = append(renewed.roots, a.Root())
	return renewed, nil
}

// EndOverlap returns the authority without the previous one, which members then refuse.
func (a *Authority) EndOverlap() *Authority { return &Authority{key: a.key, roots: a.roots[:1]} }

// Accepted returns the certificates of the authorities that members accept, the present one first.
func (a *Authority) Accepted(now time.Time) []*x509.Certificate {
	accepted := slices.Clone(a.roots[:1])
	for _, old := range a.roots[1:] {
		if now.Before(old.NotAfter) {
			accepted = append(accepted, old)
		}
	}
	return accepted
}

// encode returns the content of the authority's file. It is one file, so that the key and the
// certificates are replaced together.
func (a *Authority) encode() ([]byte, error) {
	content, err := encodeKey(a.key)
	if err != nil {
		return nil, err
	}
	all := slices.Clone(a.roots)
	if a.cross != nil {
		all = append(all, a.cross)
	}
	return append(content, encodeCertificates(all)...), nil
}

// parseAuthority is the inverse of encode.
func parseAuthority(content []byte) (*Authority, error) {
	a := &Authority{}
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("cannot parse the authority's key") // the reason may contain parts of it
			}
			var ok bool
			if a.key, ok = key.(*ecdsa.PrivateKey); !ok {
				return nil, fmt.Errorf("the authority's key is a %T, want ECDSA", key)
			}
		case "CERTIFICATE":
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("parse the authority's certificate: %w", err)
			}
			if c.CheckSignatureFrom(c) == nil {
				a.roots = append(a.roots, c)
			} else {
				a.cross = c
			}
		}
	}
	if a.key == nil || len(a.roots) == 0 {
		return nil, errors.New("the file does not contain the key and the certificate of an authority")
	}
	if !a.key.PublicKey.Equal(a.Root().PublicKey) {
		return nil, errors.New("the key does not belong to the first certificate")
	}
	return a, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func encodeCertificates(all []*x509.Certificate) (text []byte) {
	for _, c := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// date formats the end of a certificate.
func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }
