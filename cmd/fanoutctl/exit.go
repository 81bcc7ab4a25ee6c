package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// The exit codes. docs/reference/fanoutctl.md documents them.
const (
	exitOK          = 0
	exitFailed      = 1   // any failure not listed below
	exitUsage       = 2   // invalid command line, environment, context file or input
	exitNotFound    = 3   // no such object, resource, context, watcher or revision
	exitConflict    = 4   // a precondition failed: another client has written the object, or its value may be another program's
	exitUnavailable = 5   // the server or its etcd cannot be reached, or cannot serve the request now
	exitDenied      = 6   // missing, invalid or insufficient credentials
	exitTimeout     = 7   // --timeout has elapsed
	exitPartial     = 8   // some of several servers failed
	exitRefused     = 9   // watchers have reported that they cannot apply a revision
	exitRolledBack  = 10  // what was written has been rolled back
	exitNotRestored = 11  // not all of it has been
	exitInterrupted = 130 // stopped by a signal
)

// The exit codes of "fanoutctl diff", which follow diff(1).
const (
	exitDifferent = 1
	exitTrouble   = 2 // where other commands use exitFailed
)

// exitError sets the exit code. If it wraps no error, the command ends without a message.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// errNotFound reports that something does not exist, other than the objects and resources
// that the server reports as missing.
var errNotFound = errors.New("not found")

// report prints err on one line, and returns the exit code.
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
	if unknown, ok := errors.AsType[unknownFlagError](err); ok {
		unknown.show(t.stderr)
	}
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
	case errors.Is(err, client.ErrNotFound) && wrongKey(missingKey(err)) != nil:
		return exitUsage
	case errors.Is(err, errNotFound):
		return exitNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		return exitFailed
	}
	if code, ok := exitOfReason[e.Reason]; ok {
		return code
	}
	if code, ok := exitOfCode[e.Code.String()]; ok {
		return code
	}
	return exitFailed
}

// exitOfCode has the exit codes for errors of servers, by their gRPC code. It also covers reasons that a newer
// server adds.
var exitOfCode = map[string]int{
	"InvalidArgument":    exitUsage,
	"NotFound":           exitNotFound,
	"OutOfRange":         exitNotFound,
	"FailedPrecondition": exitConflict,
	"Aborted":            exitUnavailable,
	"Unavailable":        exitUnavailable,
	"Unauthenticated":    exitDenied,
	"PermissionDenied":   exitDenied,
}

// exitOfReason has the reasons whose gRPC code says too little.
var exitOfReason = map[client.Reason]int{
	client.ErrNoHistory:       exitNotFound,
	client.ErrNoCluster:       exitNotFound,
	client.ErrClusterUnsafe:   exitUnavailable,
	client.ErrRequestTooLarge: exitUsage,
	client.ErrLimitReached:    exitUnavailable,
	client.ErrRateLimited:     exitUnavailable,
}

// inputError returns the error for a file or an input that the command line names and that cannot be used. It
// has the exit code of a usageError, without advice about the command line. A signal that has ended a wait for an
// input is no such error.
func inputError(err error) error {
	if errors.Is(err, errInterrupted) {
		return err
	}
	return exitError{exitUsage, err}
}

// missingKey returns the key of the object that the server has not found.
func missingKey(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return e.Metadata["key"]
	}
	return ""
}

// explain returns a one-line message that explains what failed and what to do about it. Some of it comes
// from other programs, so it must not control the terminal.
func (t *tool) explain(code int, err error) string {
	return strings.Join(strings.Fields(output.Printable(t.message(code, err))), " ")
}

func (t *tool) message(code int, err error) string {
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.Error()
	}
	e, _ := errors.AsType[*client.Error](err)
	server := t.settings.Server
	if one, ok := errors.AsType[serverError](err); ok {
		server = one.server
	}
	switch {
	case errors.As(err, new(unknownFlagError)):
		return err.Error()
	case code == exitUsage && errors.As(err, new(usageError)):
		return fmt.Sprintf(`%v; run "%s --help" for usage`, err, cmp.Or(t.ran, "fanoutctl"))
	case code == exitInterrupted:
		return "interrupted"
	case errors.Is(err, client.ErrUnknownResource):
		name := e.Metadata["resource"]
		if resource, path, both := strings.Cut(name, "/"); both {
			return fmt.Sprintf(`resource %q not found; a resource and a path are two arguments: %s %s`, name, resource, path)
		}
		return fmt.Sprintf(`resource %q not found; run "fanoutctl resources" to list the resources`, name)
	case errors.Is(err, client.ErrNotFound) && code == exitUsage:
		return t.message(code, wrongMissingKey(missingKey(err)))
	case errors.Is(err, client.ErrNotFound):
		return fmt.Sprintf(`object %q not found (at revision %s)`, e.Metadata["key"], e.Metadata["revision"])
	case errors.Is(err, client.ErrPreconditionFailed):
		return conflict(e)
	case errors.Is(err, client.ErrOpaqueValue):
		return opaqueValue(e)
	case code == exitTimeout && e != nil:
		_, failure, ok := strings.Cut(e.Message, "the last attempt failed: ")
		cause := connectFailure(failure)
		reason, hint := "", ""
		switch {
		case !ok:
			reason, hint = server+" has not answered in time", t.staleHint()
		case cause == failure: // of the server itself
			reason, hint = server+": "+failure, t.staleHint()
		default:
			reason = fmt.Sprintf("cannot reach %s: %s", server, cause)
		}
		return fmt.Sprintf("timed out: %s; use --timeout to wait longer%s", reason, hint)
	case code == exitTimeout:
		return fmt.Sprintf("%v; use --timeout to wait longer", err)
	case errors.Is(err, client.ErrStoreUnavailable):
		return lostEtcd(server) + t.staleHint() + t.outcomeHint()
	case errors.Is(err, client.ErrWriteNotApplied):
		return lostEtcd(server) + "; nothing was written"
	case errors.Is(err, errLostEtcd):
		return lostEtcd(server)
	case e == nil:
		return err.Error()
	}
	switch {
	case e.Code.String() == "Unavailable" && e.Reason == "":
		return fmt.Sprintf(`cannot reach %s: %s; set the server with --server, FANOUTCTL_SERVER or "fanoutctl context"%s`,
			server, connectFailure(e.Message), t.tlsHint(e.Message))
	case code == exitDenied:
		hint := ""
		if !t.sendsCredentials() {
			hint = "; set credentials with --token-file, FANOUTCTL_TOKEN or --cert-file"
		}
		return fmt.Sprintf("%s denied the request: %s%s", server, e.Message, hint)
	case e.Code.String() == "Unimplemented" && strings.Contains(e.Message, "unknown service fanout.v1.FanoutService"):
		return fmt.Sprintf("%s is not the gRPC address of a fanoutd server; it may be the HTTP address (by default, gRPC has port 7420 and HTTP port 7421)", server)
	case e.Code.String() == "Unimplemented" && strings.Contains(e.Message, "unknown service"):
		return fmt.Sprintf("%s does not support this request: %s; it may be disabled, or this may be the HTTP address of the server (by default, gRPC has port 7420 and HTTP port 7421)", server, e.Message)
	case e.Code.String() == "Unimplemented":
		return fmt.Sprintf("%s does not support this request: %s; it may be disabled, or the server may be too old", server, e.Message)
	case e.Reason == client.ErrValueRefused:
		return e.Message // its fields are for programs
	case len(e.Violations) > 0:
		var violations []string
		for _, v := range e.Violations {
			violations = append(violations, v.Field+": "+v.Description)
		}
		return "invalid request: " + strings.Join(violations, "; ")
	}
	return err.Error()
}

// conflict describes a failed precondition.
func conflict(e *client.Error) string {
	expected, _ := strconv.ParseInt(e.Metadata["expected_revision"], 10, 64)
	actual, _ := strconv.ParseInt(e.Metadata["mod_revision"], 10, 64)
	return conflictOf(e.Metadata["key"], expected, actual)
}

// conflictOf describes an object that is not at the expected revision.
func conflictOf(key string, expected, actual int64) string {
	switch {
	case expected == 0:
		return fmt.Sprintf("%q already exists (revision %d); omit the precondition to replace it", key, actual)
	case actual == 0:
		return fmt.Sprintf("%q does not exist, want revision %d", key, expected)
	}
	return fmt.Sprintf("%q is at revision %d, want %d: another client has changed it; get it again and retry", key, actual, expected)
}

// opaqueValue explains that a value was not replaced.
func opaqueValue(e *client.Error) string {
	return strings.Replace(e.Message, "set overwrite_opaque", "use --overwrite-opaque", 1)
}

// connectFailure strips what gRPC puts around a failure to connect.
func connectFailure(message string) string {
	for _, prefix := range []string{"last connection error: ", "last resolver error: ", "connection error: "} {
		if _, after, ok := strings.Cut(message, prefix); ok {
			message = after
		}
	}
	if i := strings.LastIndex(message, "desc = "); i >= 0 {
		message = message[i+len("desc = "):]
	}
	switch {
	case strings.Contains(message, "produced zero addresses"):
		return "no address found for this name"
	case strings.Contains(message, "use of closed network connection"):
		return "the server accepts connections but does not respond"
	}
	return strings.TrimPrefix(strings.Trim(message, `"`), "transport: Error while dialing: ")
}

// tlsHint returns advice for a connection that fails because of TLS, or "".
func (t *tool) tlsHint(message string) string {
	switch {
	case strings.Contains(message, "does not look like a TLS handshake"):
		return "; the server does not use TLS: try --tls=false"
	case strings.Contains(message, "use of closed network connection"):
		return ""
	case strings.Contains(message, "error reading server preface") && t.settings.TLS != "true":
		return "; the server may require TLS: try --tls"
	case strings.Contains(message, "unknown authority"):
		return "; set the trusted certificate authority with --ca-file"
	}
	return ""
}
