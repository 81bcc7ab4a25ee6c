package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Identity is who makes a request, as far as that is known.
type Identity struct {
	// Name is what policies, limits and logs call the caller: the URI, DNS name or
	// common name of a certificate, the name of a token, or the subject of a JWT.
	// Empty: nobody has said who it is, or nobody was asked.
	Name string

	// Groups are those that the caller belongs to according to its credentials.
	Groups []string

	// Method is how the caller has shown who it is.
	Method Method
}

// Method is a way to show who one is.
type Method string

// The methods.
const (
	None        Method = "" // the caller has not
	Certificate Method = "certificate"
	Token       Method = "token"
	JWT         Method = "jwt"
)

// maxNameBytes bounds names and groups, which are logged and compared.
const maxNameBytes = 512

// Validate returns an error unless the name and the groups are such as people and
// programs can deal with: text without control characters, not empty, not too long.
func (i Identity) Validate() error {
	if err := checkName(i.Name); err != nil {
		return fmt.Errorf("name %w", err)
	}
	for _, group := range i.Groups {
		if err := checkName(group); err != nil {
			return fmt.Errorf("group %w", err)
		}
	}
	return nil
}

func checkName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > maxNameBytes:
		return fmt.Errorf("must have at most %d bytes", maxNameBytes)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q must be text without control characters", s)
	}
	return nil
}

// Anonymous reports whether it is not known who the caller is.
func (i Identity) Anonymous() bool { return i.Method == None }

type identityKey struct{}

// With returns a context of a request that the identity makes.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// From returns who makes the request with this context. Where nobody was asked it is
// the anonymous identity.
func From(ctx context.Context) Identity {
	i, _ := ctx.Value(identityKey{}).(Identity)
	return i
}
