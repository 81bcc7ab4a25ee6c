package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
)

// rights says what callers may do, by the policy that is in use. Every request asks
// before anything else, be it only whether the resource exists; a watch asks when it
// begins and when the policy changes, and never for an event.
type rights struct {
	policy atomic.Pointer[policy.Policy] // nil: everything is allowed
}

// everyResource is the resource of questions that only rules for all resources answer.
const everyResource = "*"

// may returns why the caller may not do what it asks for, or nil.
func (r *rights) may(ctx context.Context, verb policy.Verb, resource string, scope object.Scope) error {
	return r.examine(access.From(ctx), policy.Question{Verb: verb, Resource: resource, Scope: scope})
}

// mayWithin is may for a scope that has not been checked. What is wrong with it is
// told to anybody, because that needs no look at what there is.
func (r *rights) mayWithin(ctx context.Context, verb policy.Verb, resource string, scope *fanoutv1.Scope) error {
	var check checker
	asked := check.scope("scope", scope) // the whole resource if it is wrong
	err := r.may(ctx, verb, resource, asked)
	if wrong := check.err(); err != nil && wrong != nil {
		return wrong
	}
	return err
}

func (r *rights) examine(caller access.Identity, q policy.Question) error {
	if r.policy.Load().Grants(caller, q) {
		return nil
	}
	return &deniedError{caller, q}
}

// deniedError says that the policy does not allow what somebody has asked for. It
// tells what was asked, and nothing of what there is.
type deniedError struct {
	caller access.Identity
	asked  policy.Question
}

// isDenied reports whether an error takes a right away.
func isDenied(err error) bool {
	_, denied := errors.AsType[*deniedError](err)
	return denied
}

// isRefused reports whether an error says that credentials are not good any more.
func isRefused(err error) bool {
	_, refused := errors.AsType[*access.RefusedError](err)
	return refused
}

// maxCallerBytes is how much of the name of a caller is repeated.
const maxCallerBytes = 256

func (e *deniedError) Error() string {
	if e.caller.Anonymous() {
		return fmt.Sprintf("credentials are needed to %v", e.asked)
	}
	return fmt.Sprintf("%q may not %v", clip(e.caller.Name, maxCallerBytes), e.asked)
}

// UsePolicy puts a policy in the place of the one that is in use. Watches that it does
// not allow end at once, without a last message. With nil everything is allowed.
func (s *Server) UsePolicy(p *policy.Policy) {
	s.rights.policy.Store(p)
	s.Reexamine()
}
