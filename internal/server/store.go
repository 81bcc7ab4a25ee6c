package server

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// writes implements StoreService.
type writes struct {
	fanoutv1.UnimplementedStoreServiceServer
	resources backend.Resources
	rights    *rpc.Rights
	limits    request.WriteLimits

	overwrites map[string]*overwrites // by resource
}

// Put implements StoreService.
func (s *writes) Put(ctx context.Context, req *fanoutv1.PutRequest) (*fanoutv1.PutResponse, error) {
	if err := s.may(ctx, policy.Put, req, req.GetPut(), req.GetReturnCurrent()); err != nil {
		return nil, err
	}
	result, err := s.commit(ctx, req, func(b *request.Batch) { b.Put("put", req.GetPut()) })
	if err != nil {
		return nil, err
	}
	return &fanoutv1.PutResponse{Revision: result.GetRevision(), Applied: result.GetApplied(), Object: result.GetResults()[0].GetObject()}, nil
}

// Delete implements StoreService.
func (s *writes) Delete(ctx context.Context, req *fanoutv1.DeleteRequest) (*fanoutv1.DeleteResponse, error) {
	reads := req.GetReturnCurrent() || req.GetDelete().GetReturnDeleted()
	if err := s.may(ctx, policy.Delete, req, req.GetDelete(), reads); err != nil {
		return nil, err
	}
	result, err := s.commit(ctx, req, func(b *request.Batch) { b.Delete("delete", req.GetDelete()) })
	if err != nil {
		return nil, err
	}
	first := result.GetResults()[0]
	return &fanoutv1.DeleteResponse{
		Revision: result.GetRevision(), Deleted: first.GetDeleted(), Applied: result.GetApplied(), Object: first.GetObject(),
	}, nil
}

// Transact implements StoreService.
func (s *writes) Transact(ctx context.Context, req *fanoutv1.TransactRequest) (*fanoutv1.TransactResponse, error) {
	if err := s.mayTransact(ctx, req); err != nil {
		return nil, err
	}
	return s.commit(ctx, req, func(b *request.Batch) { b.Operations(req.GetOperations()) })
}

// keyed is an operation on one key.
type keyed interface{ GetKey() string }

// may returns an error unless the caller may apply the verb to the key. If the response
// contains an object (reads), the caller needs the right get as well, and to write without
// validation the right to do so.
func (s *writes) may(ctx context.Context, verb policy.Verb, req writeRequest, of keyed, reads bool) error {
	resource, scope := req.GetResource(), object.ExactKey(object.Key(of.GetKey()))
	if err := s.rights.May(ctx, verb, resource, scope); err != nil {
		return err
	}
	if req.GetSkipValidation() && verb != policy.Get {
		if err := s.rights.May(ctx, policy.SkipValidation, resource, scope); err != nil {
			return err
		}
	}
	if !reads {
		return nil
	}
	return s.rights.May(ctx, policy.Get, resource, scope)
}

// mayTransact returns an error unless the caller may do all operations. An empty operation
// counts as a put without a key, so that a caller without rights learns nothing from it.
func (s *writes) mayTransact(ctx context.Context, req *fanoutv1.TransactRequest) error {
	operations := req.GetOperations()
	if len(operations) == 0 {
		return s.may(ctx, policy.Put, req, &fanoutv1.PutOperation{}, req.GetReturnCurrent())
	}
	for _, operation := range operations {
		var verb policy.Verb
		var of keyed
		switch kind := operation.GetOperation().(type) {
		case *fanoutv1.Operation_Delete:
			verb, of = policy.Delete, kind.Delete
		case *fanoutv1.Operation_Check:
			verb, of = policy.Get, kind.Check
		default:
			verb, of = policy.Put, operation.GetPut()
		}
		reads := req.GetReturnCurrent() || operation.GetDelete().GetReturnDeleted()
		if err := s.may(ctx, verb, req, of, reads); err != nil {
			return err
		}
	}
	return nil
}

// writeRequest is a request with operations.
type writeRequest interface {
	GetResource() string
	GetReturnCurrent() bool
	GetJsonValues() bool
	GetMessage() string
	GetValidateOnly() bool
	GetSkipValidation() bool
}

// commit checks all operations and then sends them to the store. With return_current, a
// failed precondition is a result and not an error. With validate_only, nothing is sent.
func (s *writes) commit(ctx context.Context, req writeRequest, fill func(*request.Batch)) (*fanoutv1.TransactResponse, error) {
	resource, err := s.resources.Find(req.GetResource())
	if err != nil {
		return nil, err
	}
	b := request.Batch{Limits: s.limits, Codec: resource.Codec, ReturnCurrent: req.GetReturnCurrent()}
	fill(&b)
	b.Message("message", req.GetMessage())
	if req.GetValidateOnly() && req.GetSkipValidation() {
		b.Refuse("skip_validation", "must not be set together with validate_only")
	}
	if err := b.Err(); err != nil {
		return nil, err
	}
	var by history.Change
	if resource.History != nil {
		by = history.Change{Author: access.From(ctx).Name, Message: req.GetMessage(), Time: time.Now()}
	}
	values := request.Values(req, resource.Codec)
	overwrites := s.overwrites[resource.Name]
	var checks *checks
	if resource.Validation != nil && !req.GetSkipValidation() {
		if checks, err = newChecks(ctx, resource, b.Ops, b.ValueField); err != nil {
			return nil, err
		}
	}
	if req.GetValidateOnly() {
		if err := overwrites.check(ctx, b.Ops, checks); err != nil {
			return nil, err
		}
		return result(resource.Codec, values, false, 0, make([]bool, len(b.Ops)), nil)
	}
	commit, err := overwrites.commit(ctx, b.Ops, by, checks, func() (object.Commit, error) { return s.write(ctx, resource, b.Ops) })
	if conflict, ok := errors.AsType[*object.ConflictError](err); ok && req.GetReturnCurrent() {
		return result(resource.Codec, values, false, conflict.At, make([]bool, len(b.Ops)), conflict.Current)
	}
	if err != nil {
		return nil, err
	}
	return result(resource.Codec, values, true, commit.Revision, commit.Deleted, commit.Records)
}

func (s *writes) write(ctx context.Context, resource *backend.Resource, ops []object.Op) (object.Commit, error) {
	if resource.Tracer == nil {
		return resource.Store.Commit(ctx, ops)
	}
	done := resource.Tracer.Writing(ctx)
	commit, err := resource.Store.Commit(ctx, ops)
	done(changedAt(commit, ops))
	return commit, err
}

// maxReturnedBytes is the maximum size of the values in the response of a write. gRPC clients
// accept 4 MiB by default. If the response were refused, the client could not know that the
// write was applied.
const maxReturnedBytes = 3 << 20

// result returns the response of a write. deleted and records have an entry for each
// operation.
func result(codec object.Codec, values object.Projection, applied bool, at object.Revision, deleted []bool, records []*object.Record) (*fanoutv1.TransactResponse, error) {
	resp := &fanoutv1.TransactResponse{Revision: int64(at), Applied: applied}
	bytes := 0
	for i := range deleted {
		one := &fanoutv1.OperationResult{Deleted: deleted[i]}
		if i < len(records) && records[i] != nil {
			var err error
			if one.Object, err = protoObject(codec, values, records[i]); err != nil {
				return nil, err
			}
			if bytes += proto.Size(one.Object); bytes > maxReturnedBytes {
				one.Object.Value = nil
			}
		}
		resp.Results = append(resp.Results, one)
	}
	return resp, nil
}

// protoObject returns the object that a record holds.
func protoObject(codec object.Codec, values object.Projection, r *object.Record) (*fanoutv1.Object, error) {
	d, _ := object.Build(codec, r) // a value that cannot be decoded is served as opaque
	o := wire.InForm(wire.Preencode(d), values)
	var holder fanoutv1.GetResponse // its field for the object has the number that Preencode uses
	if err := proto.Unmarshal(wire.ObjectField(o), &holder); err != nil {
		return nil, err
	}
	return holder.GetObject(), nil
}

// changedAt returns the revision of a commit, or 0 if it changed nothing. The revision of a
// commit that only deletes missing keys is that of an earlier write.
func changedAt(commit object.Commit, ops []object.Op) object.Revision {
	for i, op := range ops {
		if i < len(commit.Deleted) && (op.Kind == object.OpPut || commit.Deleted[i]) {
			return commit.Revision
		}
	}
	return 0
}
