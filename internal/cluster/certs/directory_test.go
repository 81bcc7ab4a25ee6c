package certs_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/cluster/certs"
)

const day = 24 * time.Hour

func terms(now time.Time) certs.Terms {
	return certs.Terms{Now: now, Member: certs.MemberLifetime, Authority: certs.AuthorityLifetime}
}

// newDirectory returns a directory with an authority and the members node-1, node-2 and so on, with the
// given hosts.
func newDirectory(t *testing.T, terms certs.Terms, hosts ...string) certs.Directory {
	t.Helper()
	d := certs.Directory(t.TempDir())
	var members []certs.Member
	for i, host := range hosts {
		members = append(members, certs.Member{Name: name(i), Hosts: []string{host}})
	}
	if _, err := d.Add(members, terms); err != nil {
		t.Fatal(err)
	}
	return d
}

func name(i int) string { return "node-" + string(rune('1'+i)) }

func files(d certs.Directory, member string) certs.Files {
	in := func(file string) string { return filepath.Join(string(d), member, file) }
	return certs.Files{CA: in(certs.CAFile), Cert: in(certs.CertFile), Key: in(certs.KeyFile)}
}

// read returns the content of all files below the directory.
func read(t *testing.T, d certs.Directory) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		rel, _ := filepath.Rel(string(d), path)
		all[rel] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestCertificatesOfMembers(t *testing.T) {
	now := time.Now()
	d := newDirectory(t, terms(now), "10.0.0.1", "b.example.com", "*.fanoutd.default.svc")
	var got []string
	for path := range read(t, d) {
		got = append(got, path)
		if info, err := os.Stat(filepath.Join(string(d), path)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %v, %v, want mode 0600", path, info, err)
		}
	}
	slices.Sort(got)
	want := "authority.pem node-1/ca.pem node-1/cert.pem node-1/key.pem node-2/ca.pem node-2/cert.pem node-2/key.pem node-3/ca.pem node-3/cert.pem node-3/key.pem"
	if strings.Join(got, " ") != want {
		t.Errorf("got files %q, want %s", got, want)
	}
	for member, hosts := range map[string][]string{
		"node-1": {"10.0.0.1", "node-1", "localhost", "127.0.0.1", "::1", certs.MemberName},
		"node-2": {"b.example.com", "node-2", "localhost"},
		"node-3": {"fanoutd-2.fanoutd.default.svc"},
	} {
		if info, err := os.Stat(filepath.Join(string(d), member)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: got %v, %v, want mode 0700", member, info, err)
		}
		s, err := files(d, member).Read(now)
		if err != nil {
			t.Fatal(err)
		}
		leaf := s.Leaf
		for _, host := range hosts {
			if err := leaf.VerifyHostname(host); err != nil {
				t.Errorf("%s: %v", member, err)
			}
		}
		if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
			t.Errorf("%s: got a key %T, want ECDSA P-256", member, leaf.PublicKey)
		}
		if usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}; !slices.Equal(leaf.ExtKeyUsage, usages) || leaf.IsCA {
			t.Errorf("%s: got usages %v, CA %v", member, leaf.ExtKeyUsage, leaf.IsCA)
		}
		if leaf.Subject.CommonName != member || s.DaysLeft(now) != 364 || s.DaysLeft(now.Add(-2*time.Second)) != 365 {
			t.Errorf("%s: got name %q and %d days left", member, leaf.Subject.CommonName, s.DaysLeft(now))
		}
		// The clock of another member may be an hour late.
		for at, valid := range map[time.Duration]bool{-2 * time.Hour: false, -59 * time.Minute: true, 364 * day: true, 366 * day: false} {
			if err := s.Valid(now.Add(at)); (err == nil) != valid {
				t.Errorf("%s: %v from now: got %v, want valid: %v", member, at, err, valid)
			}
		}
	}
}

// No file is replaced unless that was asked for, and a refused request changes nothing.
func TestAddReplacesNothing(t *testing.T) {
	now := time.Now()
	d := newDirectory(t, terms(now), "10.0.0.1")
	before := read(t, d)
	fourth := certs.Member{Name: "node-4", Hosts: []string{"10.0.0.4"}}
	for want, members := range map[string][]certs.Member{
		"node-1 exists already": {fourth, {Name: "node-1", Hosts: []string{"10.0.0.1"}}},
		"is named twice":        {fourth, fourth},
		"invalid member name":   {fourth, {Name: "../node", Hosts: []string{"10.0.0.1"}}},
		"has no host":           {fourth, {Name: "node-5"}},
		"invalid host":          {fourth, {Name: "node-5", Hosts: []string{"https://node-5"}}},
	} {
		if _, err := d.Add(members, terms(now)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if after := read(t, d); len(after) != len(before) || after["node-1/key.pem"] != before["node-1/key.pem"] {
		t.Error("a refused request has changed files")
	}
	if _, err := d.Add([]certs.Member{fourth}, terms(now)); err != nil {
		t.Fatal(err)
	}
	after := read(t, d)
	if after["authority.pem"] != before["authority.pem"] || after["node-4/ca.pem"] != before["node-1/ca.pem"] {
		t.Error("a later member got another authority")
	}
}

func TestParseMember(t *testing.T) {
	for text, want := range map[string]string{
		"node-1=10.0.0.1":                       "node-1 10.0.0.1",
		"node-1=10.0.0.1:2380":                  "node-1 10.0.0.1",
		"n=a.example.com:2380, [2001:db8::1]":   "n a.example.com 2001:db8::1",
		"n=2001:db8::1,[2001:db8::2]:2380":      "n 2001:db8::1 2001:db8::2",
		"fanoutd_0=*.fanoutd.default.svc.local": "fanoutd_0 *.fanoutd.default.svc.local",
		"node-1":                                "",
		"node-1=":                               "",
		"=host":                                 "",
		"a/b=host":                              "",
		"-a=host":                               "",
		"n=0.0.0.0":                             "",
		"n=fe80::1%eth0":                        "",
		"n=http://host":                         "",
		"n=a b":                                 "",
		"n=a,,b":                                "",
		"n=*":                                   "",
	} {
		m, err := certs.ParseMember(text)
		if got := strings.Join(append([]string{m.Name}, m.Hosts...), " "); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}

// A renewal keeps the names unless it gets others, and makes a new key.
func TestRenewMembers(t *testing.T) {
	now := time.Now()
	d := newDirectory(t, terms(now), "10.0.0.1", "b.example.com", "localhost")
	before := read(t, d)
	later := now.Add(300 * day)
	if _, err := d.Renew(nil, terms(later)); err != nil {
		t.Fatal(err)
	}
	after := read(t, d)
	for path, content := range after {
		changes := strings.HasSuffix(path, certs.CertFile) || strings.HasSuffix(path, certs.KeyFile)
		if changes == (content == before[path]) {
			t.Errorf("%s: got changed: %v, want %v", path, !changes, changes)
		}
	}
	for i, host := range []string{"10.0.0.1", "b.example.com", "localhost"} {
		s, err := files(d, name(i)).Read(later)
		if err != nil || s.DaysLeft(later) != 364 || s.Leaf.VerifyHostname(host) != nil || s.Leaf.VerifyHostname(certs.MemberName) != nil {
			t.Errorf("%s: got %+v, %v", name(i), s, err)
		}
	}
	if _, err := d.Renew([]certs.Member{{Name: "node-2", Hosts: []string{"c.example.com"}}}, terms(later)); err != nil {
		t.Fatal(err)
	}
	s, err := files(d, "node-2").Read(later)
	if err != nil || s.Leaf.VerifyHostname("c.example.com") != nil || s.Leaf.VerifyHostname("b.example.com") == nil {
		t.Errorf("another host: got names %v, %v", s.Leaf.DNSNames, err)
	}
	if again := read(t, d); again["node-1/key.pem"] != after["node-1/key.pem"] {
		t.Error("the renewal of node-2 has changed node-1")
	}
	if _, err := d.Renew([]certs.Member{{Name: "node-9"}}, terms(later)); err == nil || !strings.Contains(err.Error(), "node-9 has no certificate") {
		t.Errorf("an unknown member: got %v", err)
	}
	// A member's certificate does not outlive the authority.
	last := now.Add(certs.AuthorityLifetime - 10*day)
	issued, err := d.Renew(nil, terms(last))
	if err != nil || certs.DaysUntil(issued[0].Leaf.NotAfter, last) > 10 {
		t.Errorf("shortly before the authority expires: got %v, %v", issued, err)
	}
	if _, err := d.Renew(nil, terms(last.Add(20*day))); err == nil || !strings.Contains(err.Error(), "the authority has expired") {
		t.Errorf("after the authority has expired: got %v", err)
	}
}

// While two authorities overlap, members with old and new files accept each other.
func TestRenewAuthorityOverlaps(t *testing.T) {
	now := time.Now()
	d := newDirectory(t, terms(now), "10.0.0.1", "10.0.0.2")
	old := copied(t, d)
	later := now.Add(9 * 365 * day)
	if _, err := d.Renew(nil, terms(later)); err != nil {
		t.Fatal(err)
	}
	before := copied(t, d)
	if _, err := d.RenewAuthority(terms(later)); err != nil {
		t.Fatal(err)
	}
	during := copied(t, d)
	if _, err := d.RenewAuthority(terms(later)); err == nil || !strings.Contains(err.Error(), "the overlap with the previous authority lasts until") {
		t.Errorf("a second renewal: got %v", err)
	}
	if _, err := d.EndOverlap(terms(later)); err != nil {
		t.Fatal(err)
	}
	after := copied(t, d)
	for _, c := range []struct {
		what          string
		trusts, shows certs.Directory
		ok            bool
	}{
		{"not restarted, old certificate", before, before, true},
		{"not restarted, new certificate", before, during, true},
		{"restarted, old certificate", during, before, true},
		{"restarted, new certificate", during, during, true},
		{"overlap ended here", after, during, true},
		{"overlap ended there", during, after, true},
		{"overlap ended", after, after, true},
		{"overlap ended, old certificate", after, before, false},
		{"never restarted, overlap ended", old, after, false},
	} {
		mixed := files(c.shows, "node-2")
		mixed.CA = files(c.trusts, "node-1").CA
		if _, err := mixed.Read(later); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted: %v", c.what, err, c.ok)
		}
	}
	// The old authority has a year left, and the new one ten.
	s, err := files(during, "node-1").Read(later)
	if err != nil || s.DaysLeft(later) != 364 {
		t.Errorf("got %d days left, %v, want 364", s.DaysLeft(later), err)
	}
	// When the old authority has expired, its certificate is no longer given to members.
	expired := later.Add(366 * day)
	if _, err := during.Renew(nil, terms(expired)); err != nil {
		t.Fatal(err)
	}
	content := read(t, during)
	if n := strings.Count(content["node-1/ca.pem"], "BEGIN") + strings.Count(content["node-1/cert.pem"], "BEGIN"); n != 2 {
		t.Errorf("after the overlap: got %d certificates in ca.pem and cert.pem, want 2", n)
	}
	if _, err := during.RenewAuthority(terms(expired)); err != nil {
		t.Errorf("the next renewal of the authority: %v", err)
	}
}

// copied returns a copy of the directory.
func copied(t *testing.T, d certs.Directory) certs.Directory {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(string(d))); err != nil {
		t.Fatal(err)
	}
	return certs.Directory(to)
}

func TestReadRefusesFilesThatOthersWouldRefuse(t *testing.T) {
	now := time.Now()
	ours, theirs := newDirectory(t, terms(now), "10.0.0.1", "10.0.0.2"), newDirectory(t, terms(now), "10.0.0.1")
	one, two, foreign := files(ours, "node-1"), files(ours, "node-2"), files(theirs, "node-1")
	authority := filepath.Join(string(ours), "authority.pem")
	for want, f := range map[string]certs.Files{
		`do not accept the certificate of "node-1"`: {CA: one.CA, Cert: foreign.Cert, Key: foreign.Key},
		"private key does not match":                {CA: one.CA, Cert: one.Cert, Key: two.Key},
		"cannot read the authorities":               {CA: "nowhere.pem", Cert: one.Cert, Key: one.Key},
		"nowhere.pem":                               {CA: one.CA, Cert: "nowhere.pem", Key: one.Key},
		"the file contains a PRIVATE KEY":           {CA: authority, Cert: one.Cert, Key: one.Key},
	} {
		if _, err := f.Read(now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		} else if key := strings.Split(read(t, ours)["node-1/key.pem"], "\n")[1]; strings.Contains(err.Error(), key) {
			t.Error("the error contains the key")
		}
	}
	// A certificate that has expired can be read, to say when.
	s, err := one.Read(now.Add(400 * day))
	if err != nil || s.DaysLeft(now.Add(400*day)) >= 0 || s.Valid(now.Add(400*day)) == nil {
		t.Errorf("an expired certificate: got %+v, %v", s, err)
	}
}

// Members without MemberName recognize each other by their hosts.
func TestVerificationByHost(t *testing.T) {
	d := newDirectory(t, terms(time.Now()), "10.0.0.1")
	s, err := files(d, "node-1").Read(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if v := s.Verification([]string{"10.0.0.1"}); v.ServerName != certs.MemberName || !slices.Equal(v.AllowedNames, []string{certs.MemberName}) {
		t.Errorf("got %+v, want %s", v, certs.MemberName)
	}
	brought := certs.Status{Leaf: &x509.Certificate{DNSNames: []string{"a.example.com"}}}
	if v := brought.Verification([]string{"a.example.com"}); v.ServerName != "" || !slices.Equal(v.AllowedNames, []string{"a.example.com"}) {
		t.Errorf("certificates of another authority: got %+v, want the hosts", v)
	}
}

func TestDamagedAuthorityIsRefused(t *testing.T) {
	now := time.Now()
	d, other := newDirectory(t, terms(now), "10.0.0.1"), newDirectory(t, terms(now), "10.0.0.1")
	path := filepath.Join(string(d), "authority.pem")
	good, _ := os.ReadFile(path)
	foreign, _ := os.ReadFile(filepath.Join(string(other), "authority.pem"))
	end := []byte("-----END PRIVATE KEY-----\n")
	key, _, _ := bytes.Cut(good, end)
	_, cert, _ := bytes.Cut(foreign, end)
	for want, content := range map[string][]byte{
		"does not contain the key and the certificate": cert,
		"the key does not belong":                      slices.Concat(key, end, cert),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Renew(nil, terms(now)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want %q and the path", err, want)
		}
	}
}

// What a process has left when it was killed may contain keys, and is removed by the next one that writes.
func TestTemporaryFilesOfAKilledProcessAreRemoved(t *testing.T) {
	now := time.Now()
	for name, next := range map[string]func(certs.Directory) error{
		"add": func(d certs.Directory) error {
			_, err := d.Add([]certs.Member{{Name: "node-2", Hosts: []string{"10.0.0.2"}}}, terms(now))
			return err
		},
		"renew":           func(d certs.Directory) error { _, err := d.Renew(nil, terms(now)); return err },
		"renew authority": func(d certs.Directory) error { _, err := d.RenewAuthority(terms(now)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, terms(now), "10.0.0.1")
			left := []string{".authority.pem.fanoutd-7", ".node-2.unfinished-8/key.pem", "node-1/.key.pem.fanoutd-9"}
			kept := []string{"notes", ".git/config", ".node-2/key.pem"}
			for _, path := range append(left, kept...) {
				path = filepath.Join(string(d), path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := next(d); err != nil {
				t.Fatal(err)
			}
			now := read(t, d)
			for _, path := range left {
				if _, ok := now[path]; ok {
					t.Errorf("%s is left", path)
				}
			}
			for _, path := range kept {
				if _, ok := now[path]; !ok {
					t.Errorf("%s was removed", path)
				}
			}
		})
	}
}

// A process that is killed leaves no part of an authority: the file appears with all its content.
func TestAuthorityAppearsComplete(t *testing.T) {
	const times = 100 // a reader notices an incomplete file in most of them
	for range times {
		d := certs.Directory(t.TempDir())
		path := filepath.Join(string(d), "authority.pem")
		created := make(chan struct{})
		var reading sync.WaitGroup
		reading.Go(func() {
			for {
				content, err := os.ReadFile(path)
				if err == nil && !bytes.HasSuffix(content, []byte("-----END CERTIFICATE-----\n")) {
					t.Errorf("the authority appears with %d bytes", len(content))
					return
				}
				select {
				case <-created:
					return
				default:
				}
			}
		})
		_, err := d.Add(nil, terms(time.Now()))
		close(created)
		reading.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
}
