package rpc

import (
	"context"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Rights decides what callers may do, according to the policy in use. Every handler asks it
// first, even before it finds out whether the resource exists. A watch asks when it begins
// and when the policy changes, and never for an event.
type Rights struct {
	policy atomic.Pointer[policy.Policy] // nil: everything is allowed
}

// EveryResource is the resource of questions that only rules for all resources grant.
const EveryResource = "*"

// May returns nil if the caller has a right to the whole scope, and otherwise a
// [apierr.DeniedError].
func (r *Rights) May(ctx context.Context, verb policy.Verb, resource string, scope object.Scope) error {
	if r.policy.Load() == nil {
		return nil // and nothing asks who the caller is
	}
	return r.Examine(access.From(ctx), policy.Question{Verb: verb, Resource: resource, Scope: scope})
}

// MayRead is May for the target of a request. If the scope of the request is invalid and
// the caller has no right to the whole resource, the error explains what is wrong with the
// scope: this reveals nothing about the resource.
func (r *Rights) MayRead(ctx context.Context, verb policy.Verb, target request.Target) error {
	err := r.May(ctx, verb, target.Resource, target.Scope)
	if invalid := target.Err(); err != nil && invalid != nil {
		return invalid
	}
	return err
}

// Examine returns nil if the policy in use grants the question to the caller, and
// otherwise a [apierr.DeniedError].
func (r *Rights) Examine(caller access.Identity, q policy.Question) error {
	if r.policy.Load().Grants(caller, q) {
		return nil
	}
	return &apierr.DeniedError{Caller: caller, Question: q}
}

// Use replaces the policy in use. With nil everything is allowed.
func (r *Rights) Use(p *policy.Policy) { r.policy.Store(p) }
