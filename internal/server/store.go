package server

import (
	"context"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// writes implements StoreService.
type writes struct {
	fanoutv1.UnimplementedStoreServiceServer
	resources backend.Resources
	rights    *rpc.Rights
	limits    request.WriteLimits
}

// Put implements StoreService.
func (s *writes) Put(ctx context.Context, req *fanoutv1.PutRequest) (*fanoutv1.PutResponse, error) {
	if err := s.may(ctx, policy.Put, req.GetResource(), req.GetPut()); err != nil {
		return nil, err
	}
	commit, err := s.commit(ctx, req.GetResource(), func(b *request.Batch) { b.Put("put", req.GetPut()) })
	if err != nil {
		return nil, err
	}
	return &fanoutv1.PutResponse{Revision: int64(commit.Revision)}, nil
}

// Delete implements StoreService.
func (s *writes) Delete(ctx context.Context, req *fanoutv1.DeleteRequest) (*fanoutv1.DeleteResponse, error) {
	if err := s.may(ctx, policy.Delete, req.GetResource(), req.GetDelete()); err != nil {
		return nil, err
	}
	commit, err := s.commit(ctx, req.GetResource(), func(b *request.Batch) { b.Delete("delete", req.GetDelete()) })
	if err != nil {
		return nil, err
	}
	return &fanoutv1.DeleteResponse{Revision: int64(commit.Revision), Deleted: commit.Deleted[0]}, nil
}

// Transact implements StoreService.
func (s *writes) Transact(ctx context.Context, req *fanoutv1.TransactRequest) (*fanoutv1.TransactResponse, error) {
	if err := s.mayTransact(ctx, req); err != nil {
		return nil, err
	}
	commit, err := s.commit(ctx, req.GetResource(), func(b *request.Batch) { b.Operations(req.GetOperations()) })
	if err != nil {
		return nil, err
	}
	resp := &fanoutv1.TransactResponse{Revision: int64(commit.Revision)}
	for _, deleted := range commit.Deleted {
		resp.Results = append(resp.Results, &fanoutv1.OperationResult{Deleted: deleted})
	}
	return resp, nil
}

// keyed is what concerns one key.
type keyed interface{ GetKey() string }

// may returns why the caller may not do it to the key, or nil.
func (s *writes) may(ctx context.Context, verb policy.Verb, resource string, of keyed) error {
	return s.rights.May(ctx, verb, resource, object.ExactKey(object.Key(of.GetKey())))
}

// mayTransact returns why the caller may not do one of the operations, or nil. What is
// no operation is taken for a put of no key, so that who may do nothing learns nothing.
func (s *writes) mayTransact(ctx context.Context, req *fanoutv1.TransactRequest) error {
	operations := req.GetOperations()
	if len(operations) == 0 {
		return s.may(ctx, policy.Put, req.GetResource(), &fanoutv1.PutOperation{})
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
		if err := s.may(ctx, verb, req.GetResource(), of); err != nil {
			return err
		}
	}
	return nil
}

// commit checks everything first and only then asks the store.
func (s *writes) commit(ctx context.Context, name string, fill func(*request.Batch)) (object.Commit, error) {
	resource, err := s.resources.Find(name)
	if err != nil {
		return object.Commit{}, err
	}
	b := request.Batch{Limits: s.limits, Codec: resource.Codec}
	fill(&b)
	if err := b.Err(); err != nil {
		return object.Commit{}, err
	}
	if resource.Tracer == nil {
		return resource.Writer.Commit(ctx, b.Ops)
	}
	done := resource.Tracer.Writing(ctx)
	commit, err := resource.Writer.Commit(ctx, b.Ops)
	done(changedAt(commit, b.Ops))
	return commit, err
}

// changedAt returns the revision at which a commit has changed anything, or 0: deleting
// what is not there has the revision of whatever was written last.
func changedAt(commit object.Commit, ops []object.Op) object.Revision {
	for i, op := range ops {
		if i < len(commit.Deleted) && (op.Kind == object.OpPut || commit.Deleted[i]) {
			return commit.Revision
		}
	}
	return 0
}
