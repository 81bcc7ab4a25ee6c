package server

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/fanoutd/fanoutd/internal/object"
)

// What the package itself has to say no with. The errors of the cacher, of
// dispatch and of the store come on top; answerTo knows them all.

// invalidError says what is wrong with a request, field by field.
type invalidError []*errdetails.BadRequest_FieldViolation

func (e invalidError) Error() string {
	violations := make([]string, len(e))
	for i, v := range e {
		violations[i] = strings.TrimSpace(v.GetField() + " " + v.GetDescription())
	}
	return "invalid request: " + strings.Join(violations, "; ")
}

// unknownResourceError names a resource that is not configured.
type unknownResourceError string

func (e unknownResourceError) Error() string {
	return fmt.Sprintf("there is no resource %q", string(e))
}

// notFoundError says that a key does not exist.
type notFoundError struct {
	key object.Key
	at  object.Revision
}

func (e *notFoundError) Error() string {
	return fmt.Sprintf("key %q does not exist at revision %d", e.key, e.at)
}

// expiredError says that the state at a position can no longer be told.
type expiredError struct {
	asked  object.Position
	oldest object.Revision
}

func (e *expiredError) Error() string {
	return fmt.Sprintf("the state at revision %d is no longer known, the oldest is that at %d", e.asked.Revision, e.oldest)
}

// pageExpiredError says the same about a list that was begun there.
type pageExpiredError struct {
	*expiredError
	token string // continues at the newest revision
}

var (
	// errDraining ends streams and requests while the server stops.
	errDraining = errors.New("the server is stopping")

	// errEnded ends a watch that an operator does not want.
	errEnded = errors.New("an operator has ended the watch, resume it here or at another server")

	// errPanic is what remains of a panic; the rest is in the log.
	errPanic = errors.New("the handler panicked")
)
