package server

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/object"
)

// maxTTL is etcd's own bound on the time to live of a lease, in seconds.
const maxTTL = 9_000_000_000

// writes implements StoreService.
type writes struct {
	fanoutv1.UnimplementedStoreServiceServer
	resources     resources
	rights        *rights
	maxValueBytes int
	maxOperations int
}

// Put implements StoreService.
func (s *writes) Put(ctx context.Context, req *fanoutv1.PutRequest) (*fanoutv1.PutResponse, error) {
	if err := s.may(ctx, policy.Put, req.GetResource(), req.GetPut()); err != nil {
		return nil, err
	}
	commit, err := s.commit(ctx, req.GetResource(), func(b *batch) { b.put("put", req.GetPut()) })
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
	commit, err := s.commit(ctx, req.GetResource(), func(b *batch) { b.remove("delete", req.GetDelete()) })
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
	commit, err := s.commit(ctx, req.GetResource(), func(b *batch) { b.operations(req.GetOperations()) })
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
	return s.rights.may(ctx, verb, resource, object.ExactKey(object.Key(of.GetKey())))
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
func (s *writes) commit(ctx context.Context, name string, fill func(*batch)) (object.Commit, error) {
	resource, err := s.resources.find(name)
	if err != nil {
		return object.Commit{}, err
	}
	b := batch{writes: s, codec: resource.Codec}
	fill(&b)
	if err := b.err(); err != nil {
		return object.Commit{}, err
	}
	if resource.Trail == nil {
		return resource.Writer.Commit(ctx, b.ops)
	}
	done := resource.Trail.Writing(ctx)
	commit, err := resource.Writer.Commit(ctx, b.ops)
	done(changedAt(commit, b.ops))
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

// batch turns the operations of a request into those of the store.
type batch struct {
	checker
	writes *writes
	codec  object.Codec
	ops    []object.Op
}

func (b *batch) operations(operations []*fanoutv1.Operation) {
	if n := len(operations); n == 0 || n > b.writes.maxOperations {
		b.refuse("operations", "has %d operations, must have between 1 and %d", n, b.writes.maxOperations)
		return
	}
	keys := map[object.Key]bool{}
	for i, operation := range operations {
		field := fmt.Sprintf("operations[%d]", i)
		var key object.Key
		switch kind := operation.GetOperation().(type) {
		case *fanoutv1.Operation_Put:
			key = b.put(field+".put", kind.Put)
		case *fanoutv1.Operation_Delete:
			key = b.remove(field+".delete", kind.Delete)
		case *fanoutv1.Operation_Check:
			key = b.check(field+".check", kind.Check)
		default:
			b.refuse(field, "must be a put, a delete or a check")
		}
		if key != "" && keys[key] {
			b.refuse(field, "has the key %q of an earlier operation", key)
		}
		keys[key] = true
	}
}

// The methods below add one operation each and return its key, which is empty
// where it is refused.

func (b *batch) put(field string, p *fanoutv1.PutOperation) object.Key {
	if p == nil {
		b.refuse(field, "must be set")
		return ""
	}
	op := object.Op{
		Kind: object.OpPut,
		Key:  b.key(field+".key", p.GetKey()),
		If:   b.precondition(field+".if_mod_revision", p.IfModRevision),
		TTL:  b.ttl(field+".ttl", p.GetTtl()),
	}
	content := object.Content{ContentType: p.GetContentType(), Labels: p.GetLabels()}
	b.contentType(field+".content_type", content.ContentType)
	valueField := field + ".value"
	switch value := p.GetValue().(type) {
	case *fanoutv1.PutOperation_Text:
		valueField, content.Value = field+".text", []byte(value.Text)
	case *fanoutv1.PutOperation_Data:
		valueField, content.Value = field+".data", value.Data
	}
	_, isText := p.GetValue().(*fanoutv1.PutOperation_Text)
	if n := len(content.Value); n > b.writes.maxValueBytes {
		b.refuse(valueField, "has %d bytes, the limit is %d", n, b.writes.maxValueBytes)
	} else {
		op.Value = b.encode(field, valueField, content, isText)
	}
	return b.add(op)
}

func (b *batch) remove(field string, d *fanoutv1.DeleteOperation) object.Key {
	if d == nil {
		b.refuse(field, "must be set")
		return ""
	}
	return b.add(object.Op{
		Kind: object.OpDelete,
		Key:  b.key(field+".key", d.GetKey()),
		If:   b.precondition(field+".if_mod_revision", d.IfModRevision),
	})
}

func (b *batch) check(field string, c *fanoutv1.CheckOperation) object.Key {
	if c == nil {
		b.refuse(field, "must be set")
		return ""
	}
	if c.ModRevision == nil {
		b.refuse(field+".mod_revision", "must be set; 0 means that the key must not exist")
	}
	return b.add(object.Op{
		Kind: object.OpCheck,
		Key:  b.key(field+".key", c.GetKey()),
		If:   b.precondition(field+".mod_revision", c.ModRevision),
	})
}

func (b *batch) add(op object.Op) object.Key {
	b.ops = append(b.ops, op)
	return op.Key
}

// encode returns the stored form of a value.
func (b *batch) encode(field, valueField string, content object.Content, isText bool) []byte {
	stored, err := object.Encode(b.codec, content, isText)
	if err != nil {
		if err.Field == "value" {
			field = valueField
		} else {
			field += "." + err.Field
		}
		b.refuse(field, "%s", err.Reason)
	}
	return stored
}

func (b *batch) ttl(field string, ttl *durationpb.Duration) time.Duration {
	if ttl == nil {
		return 0
	}
	if ttl.GetNanos() != 0 || ttl.GetSeconds() < 1 || ttl.GetSeconds() > maxTTL {
		b.refuse(field, "must be whole seconds between 1 and %d", maxTTL)
		return 0
	}
	return time.Duration(ttl.GetSeconds()) * time.Second
}
