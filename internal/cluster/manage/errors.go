package manage

import (
	"errors"
	"fmt"
	"strings"
)

// ErrSingle means that a server is not one of several, so that there are no members to change.
var ErrSingle = errors.New("the server has an embedded etcd of its own, without other members: the setting cluster makes it one of several")

// UnsafeError means that a change was refused because of the state of the cluster. Nothing was changed.
type UnsafeError struct{ Reason string }

func (e *UnsafeError) Error() string { return e.Reason }

func unsafef(format string, args ...any) error { return &UnsafeError{fmt.Sprintf(format, args...)} }

// UnknownMemberError is a name that no member has.
type UnknownMemberError struct {
	Name  string
	Names []string // of the members
}

func (e *UnknownMemberError) Error() string {
	return fmt.Sprintf("the cluster has no member %q: its members are %s", e.Name, strings.Join(e.Names, ", "))
}
