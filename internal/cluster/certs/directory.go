package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/fanoutd/fanoutd/client/localfile"
)

// Directory is the folder from which an operator copies the certificates to the members:
//
//	authority.pem  the authority with its key, for no machine that runs a member
//	node-1/        for the machine of the member node-1: ca.pem, cert.pem and key.pem
//
// Only its owner can read the files. A Directory does nothing about processes that change it at the
// same time.
type Directory string

// The files of a member.
const (
	CAFile   = "ca.pem"
	CertFile = "cert.pem"
	KeyFile  = "key.pem"
)

// Terms says when and for how long certificates are issued.
type Terms struct {
	Now       time.Time
	Member    time.Duration
	Authority time.Duration
}

// The usual lifetimes.
const (
	MemberLifetime    = 365 * 24 * time.Hour
	AuthorityLifetime = 10 * 365 * 24 * time.Hour
)

// Issued describes a member's certificate in a [Directory].
type Issued struct {
	Member Member
	Leaf   *x509.Certificate
}

func (d Directory) authorityFile() string { return filepath.Join(string(d), "authority.pem") }

// Authority reads the authority. The error wraps [fs.ErrNotExist] if there is none.
func (d Directory) Authority() (*Authority, error) {
	content, err := localfile.ReadFile(d.authorityFile())
	if err != nil {
		return nil, fmt.Errorf("cannot read the authority: %w", err)
	}
	a, err := parseAuthority(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.authorityFile(), err)
	}
	return a, nil
}

// Add issues the first certificates of members. It creates the authority if there is none, and
// replaces no file.
func (d Directory) Add(members []Member, t Terms) (issued []Issued, err error) {
	seen := map[string]bool{}
	for _, m := range members {
		if err := m.validate(); err != nil {
			return nil, err
		}
		if seen[m.Name] {
			return nil, fmt.Errorf("member %s is named twice", m.Name)
		}
		seen[m.Name] = true
		if _, err := os.Lstat(d.member(m.Name)); err == nil {
			return nil, fmt.Errorf("%s exists already; run \"fanoutd cluster certs renew\" to replace certificates", d.member(m.Name))
		}
	}
	d.removeTemporaries()
	a, err := d.Authority()
	if errors.Is(err, fs.ErrNotExist) {
		a, err = d.createAuthority(t)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		pair, leaf, err := a.Issue(m, t.Now, t.Member)
		if err != nil {
			return issued, err
		}
		if err := d.createMember(m.Name, a.Accepted(t.Now), pair); err != nil {
			return issued, fmt.Errorf("cannot write the files of %s: %w", m.Name, err)
		}
		issued = append(issued, Issued{m, leaf})
	}
	return issued, nil
}

func (d Directory) member(name string) string { return filepath.Join(string(d), name) }

func (d Directory) createAuthority(t Terms) (*Authority, error) {
	a, err := NewAuthority(t.Now, t.Authority)
	if err != nil {
		return nil, err
	}
	return a, d.write(a)
}

// write writes the file of the authority.
func (d Directory) write(a *Authority) error {
	content, err := a.encode()
	if err != nil {
		return err
	}
	if err := localfile.Replace(d.authorityFile(), content, 0o600); err != nil {
		return fmt.Errorf("cannot write the authority: %w", err)
	}
	return nil
}

// removeTemporaries removes the files and folders that a process has left when it was killed. They may contain keys.
func (d Directory) removeTemporaries() {
	localfile.RemoveTemporaries(d.authorityFile())
	entries, _ := os.ReadDir(string(d)) // what follows reports an error
	for _, e := range entries {
		if unfinished.MatchString(e.Name()) {
			_ = os.RemoveAll(filepath.Join(string(d), e.Name()))
		}
		if e.IsDir() && memberName.MatchString(e.Name()) {
			for _, f := range []string{CAFile, CertFile, KeyFile} {
				localfile.RemoveTemporaries(filepath.Join(d.member(e.Name()), f))
			}
		}
	}
}

// unfinished is the name of a folder of createMember that has not been renamed.
var unfinished = regexp.MustCompile(`^\.[A-Za-z0-9].*\.unfinished-\d+$`)

// createMember creates the folder of a member with all its files, or nothing.
func (d Directory) createMember(name string, authorities []*x509.Certificate, pair Pair) error {
	folder, err := os.MkdirTemp(string(d), "."+name+".unfinished-") // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) // nothing, once it is renamed
	for _, f := range memberFiles(authorities, pair) {
		if err := createFile(filepath.Join(folder, f.name), f.content); err != nil {
			return err
		}
	}
	return os.Rename(folder, d.member(name))
}

// memberFile is one of a member's files.
type memberFile struct {
	name    string
	content []byte
}

// memberFiles returns the files of a member in the order in which they are written.
func memberFiles(authorities []*x509.Certificate, pair Pair) []memberFile {
	return []memberFile{{CAFile, encodeCertificates(authorities)}, {CertFile, pair.Cert}, {KeyFile, pair.Key}}
}

func createFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Issued returns the certificates of all members, in the order of their names.
func (d Directory) Issued() (all []Issued, err error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !memberName.MatchString(e.Name()) {
			continue
		}
		path := filepath.Join(d.member(e.Name()), CertFile)
		content, err := localfile.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another folder
		} else if err != nil {
			return nil, fmt.Errorf("cannot read the certificate of %s: %w", e.Name(), err)
		}
		chain, err := parseCertificates(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m := memberOf(chain[0])
		m.Name = e.Name()
		all = append(all, Issued{m, chain[0]})
	}
	return all, nil
}

// Renew issues new certificates with new keys from the present authority. A member without hosts keeps
// those that it has. No members means all of them.
func (d Directory) Renew(members []Member, t Terms) ([]Issued, error) {
	d.removeTemporaries()
	a, err := d.Authority()
	if err != nil {
		return nil, err
	}
	present, err := d.Issued()
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		for _, p := range present {
			members = append(members, p.Member)
		}
	}
	for i, m := range members {
		known := false
		for _, p := range present {
			if p.Member.Name == m.Name {
				known = true
				if len(m.Hosts) == 0 {
					members[i].Hosts = p.Member.Hosts
				}
			}
		}
		if !known {
			return nil, fmt.Errorf("%s has no certificate; run \"fanoutd cluster certs\" to create it", d.member(m.Name))
		}
		if err := members[i].validate(); err != nil {
			return nil, err
		}
	}
	return d.replace(a, members, t)
}

// RenewAuthority replaces the authority, and issues new certificates for all members. It begins an
// overlap with the present one.
func (d Directory) RenewAuthority(t Terms) ([]Issued, error) {
	return d.changeAuthority(t, func(a *Authority) (*Authority, error) { return a.Renew(t.Now, t.Authority) })
}

// EndOverlap removes the previous authority, and issues new certificates for all members. A member
// that has not restarted since RenewAuthority refuses them.
func (d Directory) EndOverlap(t Terms) ([]Issued, error) {
	return d.changeAuthority(t, func(a *Authority) (*Authority, error) {
		if len(a.roots) == 1 {
			return nil, errors.New("the authority does not overlap with a previous one")
		}
		return a.EndOverlap(), nil
	})
}

func (d Directory) changeAuthority(t Terms, change func(*Authority) (*Authority, error)) ([]Issued, error) {
	a, err := d.Authority()
	if err != nil {
		return nil, err
	}
	if a, err = change(a); err != nil {
		return nil, err
	}
	if err := d.write(a); err != nil {
		return nil, err
	}
	return d.Renew(nil, t) // also repairs an interrupted change
}

func (d Directory) replace(a *Authority, members []Member, t Terms) (issued []Issued, err error) {
	for _, m := range members {
		pair, leaf, err := a.Issue(m, t.Now, t.Member)
		if err != nil {
			return issued, err
		}
		// A reader may see the new certificate with the old key for a moment: etcd reads
		// both again for the next connection.
		for _, f := range memberFiles(a.Accepted(t.Now), pair) {
			if err := localfile.Replace(filepath.Join(d.member(m.Name), f.name), f.content, 0o600); err != nil {
				return issued, fmt.Errorf("cannot write the files of %s: %w", m.Name, err)
			}
		}
		issued = append(issued, Issued{m, leaf})
	}
	return issued, nil
}
