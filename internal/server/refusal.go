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
		violations[i] = v.GetField() + " " + v.GetDescription()
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

// pageExpiredError says that a list cannot be continued at its revision.
type pageExpiredError struct {
	at     object.Revision
	oldest object.Revision
	token  string // continues at the newest revision
}

func (e *pageExpiredError) Error() string {
	return fmt.Sprintf("the list cannot be continued at revision %d, the oldest still known is %d", e.at, e.oldest)
}

var (
	// errDraining ends streams and requests while the server stops.
	errDraining = errors.New("the server is stopping")

	// errPanic is what remains of a panic; the rest is in the log.
	errPanic = errors.New("the handler panicked")
)
