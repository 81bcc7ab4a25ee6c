package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// What the process ends with. docs/fanoutctl.md has them.
const (
	exitOK          = 0
	exitFailed      = 1   // none of the following
	exitUsage       = 2   // the command line, the environment or the file of contexts is wrong
	exitNotFound    = 3   // there is no such object or resource
	exitConflict    = 4   // a precondition does not hold: somebody else has written
	exitUnavailable = 5   // the server or its etcd cannot be reached
	exitDenied      = 6   // the credentials are missing, wrong or not enough
	exitTimeout     = 7   // the time given with --timeout has passed
	exitPartial     = 8   // some of several servers failed: they do not answer, or refuse
	exitInterrupted = 130 // somebody has stopped the command
)

// For diff, as for diff(1).
const (
	exitDifferent = 1
	exitTrouble   = 2 // where others have exitFailed
)

// usageError is a mistake of who has started the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitError ends the command with a code of its own. Without an error there is
// nothing to say.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// report says what went wrong, on one line, and returns the exit code.
func (t *tool) report(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitCode(ctx, err)
	exit, ok := errors.AsType[exitError](err)
	if ok && exit.error == nil {
		return code
	}
	fmt.Fprintf(t.stderr, "fanoutctl: %s\n", t.explain(code, err))
	return code
}

func exitCode(ctx context.Context, err error) int {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	switch {
	case errors.As(err, new(usageError)):
		return exitUsage
	case errors.Is(err, errInterrupted) || errors.Is(context.Cause(ctx), errInterrupted):
		return exitInterrupted
	case errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrUnknownResource), errors.Is(err, errNotThere):
		return exitNotFound
	case errors.Is(err, client.ErrPreconditionFailed):
		return exitConflict
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return exitFailed
	}
	switch e.Code.String() {
	case "Unavailable":
		return exitUnavailable
	case "Unauthenticated", "PermissionDenied":
		return exitDenied
	}
	return exitFailed
}

// errNotThere is the error for something that does not exist, other than what the
// server says of objects and resources.
var errNotThere = errors.New("does not exist")

// explain says on one line what is wrong and what to do about it.
func (t *tool) explain(code int, err error) string {
	text := t.hint(code, err)
	return strings.Join(strings.Fields(text), " ")
}

func (t *tool) hint(code int, err error) string {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.Error() // says everything
	}
	e, _ := errors.AsType[*client.Error](err)
	server := t.settings.Server
	if one, ok := errors.AsType[serverError](err); ok {
		server = one.server
	}
	switch {
	case code == exitUsage && errors.As(err, new(usageError)):
		return err.Error() + "; see fanoutctl --help"
	case code == exitInterrupted:
		return "interrupted"
	case errors.Is(err, client.ErrUnknownResource):
		return fmt.Sprintf("the server has no resource %q; \"fanoutctl resources\" shows those it has", e.Metadata["resource"])
	case errors.Is(err, client.ErrNotFound):
		return fmt.Sprintf("there is no object %q (at revision %s); \"fanoutctl list\" shows those there are", e.Metadata["key"], e.Metadata["revision"])
	case errors.Is(err, client.ErrPreconditionFailed):
		return conflict(e)
	case code == exitTimeout:
		return fmt.Sprintf("%v; --timeout sets how long to wait", err)
	case e == nil:
		return err.Error()
	}
	switch {
	case e.Code.String() == "Unavailable" && e.Reason == "":
		return fmt.Sprintf("cannot reach %s: %s; --server, FANOUTCTL_SERVER or \"fanoutctl context\" say where the server is%s",
			server, reachable(e.Message), t.securityHint(e.Message))
	case code == exitDenied:
		return fmt.Sprintf("%s refuses: %s; --token-file, FANOUTCTL_TOKEN or --cert-file say who you are", server, e.Message)
	case e.Code.String() == "Unimplemented":
		return fmt.Sprintf("%s does not serve this: %s; it may be switched off or the server older than this command", server, e.Message)
	case len(e.Violations) > 0:
		var faults []string
		for _, v := range e.Violations {
			faults = append(faults, v.Field+": "+v.Description)
		}
		return "the server does not take this: " + strings.Join(faults, "; ")
	}
	return err.Error()
}

// conflict says which precondition does not hold.
func conflict(e *client.Error) string {
	key, expected, is := e.Metadata["key"], e.Metadata["expected_revision"], e.Metadata["mod_revision"]
	switch {
	case expected == "0":
		return fmt.Sprintf("%q exists already, with revision %s; without --if-absent it is replaced", key, is)
	case is == "0":
		return fmt.Sprintf("%q does not exist any more; it was expected to have revision %s", key, expected)
	}
	return fmt.Sprintf("%q has revision %s and not %s: somebody has changed it; get it again and decide anew", key, is, expected)
}

// reachable leaves out what gRPC puts around a failure to connect.
func reachable(message string) string {
	for _, prefix := range []string{"last connection error: ", "last resolver error: ", "connection error: "} {
		if _, after, ok := strings.Cut(message, prefix); ok {
			message = after
		}
	}
	if i := strings.LastIndex(message, "desc = "); i >= 0 {
		message = message[i+len("desc = "):]
	}
	return strings.TrimPrefix(strings.Trim(message, `"`), "transport: Error while dialing: ")
}

func (t *tool) securityHint(message string) string {
	switch {
	case strings.Contains(message, "does not look like a TLS handshake"):
		return "; it does not speak TLS: --tls=false"
	case strings.Contains(message, "use of closed network connection"):
		return "; it takes connections, but says nothing"
	case strings.Contains(message, "error reading server preface") && t.settings.TLS != "true":
		return "; it may speak TLS: --tls"
	case strings.Contains(message, "unknown authority"):
		return "; --ca-file says whom to trust"
	}
	return ""
}
