package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("invalid address %q (want host:port, such as 127.0.0.1:7420)", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("invalid port in %q (want 0 to 65535)", s)
	}
	return nil
}

// checkHost validates the host of a URL, with an optional port.
func checkHost(s string) error {
	if u, err := url.Parse("http://" + s); err != nil || u.Host != s || u.Hostname() == "" {
		return fmt.Errorf("invalid host %q (want a name such as fanoutd.example.com or fanoutd:7421)", s)
	}
	return nil
}

// checkOrigin validates the origin of a page, in the form that browsers send: lower case, and
// without the default port.
func checkOrigin(s string) error {
	scheme, host, _ := strings.Cut(s, "://")
	port, known := map[string]string{"http": ":80", "https": ":443"}[scheme]
	if !known || checkHost(host) != nil || s != strings.ToLower(s) || strings.HasSuffix(host, port) || strings.Contains(host, "*") {
		return fmt.Errorf("invalid origin %q (want a scheme, a host and a port that is not the default, in lower case, such as https://app.example.com or http://localhost:3000)", s)
	}
	return nil
}

func checkEndpoint(s string) error {
	invalid := fmt.Errorf("invalid endpoint %q (want host:port or a URL, such as 10.0.0.1:2379 or https://etcd-1:2379)", s)
	address := s
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		if u, err := url.Parse(s); err != nil || rest != u.Host || scheme != "http" && scheme != "https" {
			return invalid
		}
		address = rest
	}
	if host, _, err := net.SplitHostPort(address); err != nil || host == "" || checkAddress(address) != nil {
		return invalid
	}
	return nil
}

// checkCollector validates the URL of a trace collector.
func checkCollector(s string) error {
	if !strings.Contains(s, "://") || checkEndpoint(s) != nil {
		return fmt.Errorf("invalid URL %q (want for example http://127.0.0.1:4317 or https://collector:4317)", s)
	}
	return nil
}

var resourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

func checkResourceName(s string) error {
	switch {
	case s == "":
		return errors.New("missing name")
	case !resourceName.MatchString(s):
		return fmt.Errorf("invalid name %q (want 1 to 63 characters of a-z, 0-9 and -, not starting with -)", s)
	}
	return nil
}

// maxPrefixBytes is arbitrary. It keeps keys short in logs and in etcd.
const maxPrefixBytes = 256

func checkPrefix(s string) error {
	switch {
	case !strings.HasSuffix(s, "/"):
		return fmt.Errorf("%q must end with a slash", s)
	case len(s) > maxPrefixBytes:
		return fmt.Errorf("has %d bytes, the limit is %d", len(s), maxPrefixBytes)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q must be UTF-8 without control characters", s)
	}
	return nil
}

// maxFieldNameBytes is the length of the longest name of a field.
const maxFieldNameBytes = 63

var fieldName = regexp.MustCompile(`^[A-Za-z0-9_$-]+(\.[A-Za-z0-9_$-]+)*$`)

func checkFieldName(s string) error {
	switch {
	case s == "":
		return errors.New("missing name")
	case s == "key" || s == "name":
		return fmt.Errorf("%q is a built-in field", s)
	case len(s) > maxFieldNameBytes || !fieldName.MatchString(s):
		return fmt.Errorf("invalid name %q (want 1 to 63 letters, digits, _, $ and -, with dots between them)", s)
	}
	return nil
}
