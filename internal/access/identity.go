package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Identity identifies the caller of a request. The zero value is the anonymous caller.
type Identity struct {
	// Name is what policies, limits and logs call the caller: the URI, DNS name or
	// common name of a certificate, the name of a token, or the subject of a JWT.
	// It is empty for anonymous callers.
	Name string

	// Groups are the caller's groups according to its credentials.
	Groups []string

	// Method is how the caller has authenticated.
	Method Method
}

// Method is a way to authenticate.
type Method string

// The methods.
const (
	None        Method = "" // anonymous
	Certificate Method = "certificate"
	Token       Method = "token"
	JWT         Method = "jwt"
)

// maxNameBytes bounds the length of names and groups, because they are logged.
const maxNameBytes = 512

// Validate returns an error unless the name and all groups are text of 1 to 512 bytes
// without control characters.
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

// Anonymous reports whether the caller has not authenticated.
func (i Identity) Anonymous() bool { return i.Method == None }

type identityKey struct{}

// With returns a context that carries the identity of the caller.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// From returns the identity that the context carries, or the anonymous one.
func From(ctx context.Context) Identity {
	i, _ := ctx.Value(identityKey{}).(Identity)
	return i
}
