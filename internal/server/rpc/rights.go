package rpc

import (
	"context"
	"sync/atomic"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Rights says what callers may do, by the policy that is in use. Every request asks
// before anything else, be it only whether the resource exists; a watch asks when it
// begins and when the policy changes, and never for an event.
type Rights struct {
	policy atomic.Pointer[policy.Policy] // nil: everything is allowed
}

// EveryResource is the resource of questions that only rules for all resources answer.
const EveryResource = "*"

// May returns why the caller may not do what it asks for, or nil.
func (r *Rights) May(ctx context.Context, verb policy.Verb, resource string, scope object.Scope) error {
	return r.Examine(access.From(ctx), policy.Question{Verb: verb, Resource: resource, Scope: scope})
}

// MayWithin is may for a scope that has not been checked. What is wrong with it is
// told to anybody, because that needs no look at what there is.
func (r *Rights) MayWithin(ctx context.Context, verb policy.Verb, resource string, scope *fanoutv1.Scope) error {
	var check request.Checker
	asked := check.Scope("scope", scope) // the whole resource if it is wrong
	err := r.May(ctx, verb, resource, asked)
	if wrong := check.Err(); err != nil && wrong != nil {
		return wrong
	}
	return err
}

func (r *Rights) Examine(caller access.Identity, q policy.Question) error {
	if r.policy.Load().Grants(caller, q) {
		return nil
	}
	return &apierr.DeniedError{Caller: caller, Question: q}
}

// Use puts a policy in the place of the one that is in use. With nil everything is allowed.
func (r *Rights) Use(p *policy.Policy) { r.policy.Store(p) }

// admitsAnonymous reports whether the policy allows anything to callers without credentials.
func (r *Rights) admitsAnonymous() bool { return r.policy.Load().AdmitsAnonymous() }
