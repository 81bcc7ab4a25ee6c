package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// WriteOption is an option of a put.
type WriteOption interface{ put(*fanoutv1.PutOperation) }

// DeleteOption is an option of a deletion.
type DeleteOption interface {
	delete(*fanoutv1.DeleteOperation)
}

// Precondition is a condition for a write. If it does not hold, the write fails with
// [ErrPreconditionFailed] and changes nothing.
type Precondition interface {
	WriteOption
	DeleteOption
}

// IfRevision requires that the object has this ModRevision; 0 is the same as
// [IfAbsent].
func IfRevision(revision int64) Precondition { return precondition(revision) }

// IfAbsent requires that there is no object with the key.
func IfAbsent() Precondition { return precondition(0) }

type precondition int64

func (p precondition) put(op *fanoutv1.PutOperation)       { op.IfModRevision = new(int64(p)) }
func (p precondition) delete(op *fanoutv1.DeleteOperation) { op.IfModRevision = new(int64(p)) }

// TTL makes the server remove the object when this time has passed since the write.
// It must be a whole number of seconds, at least 1; a server allows 30 days by default.
// A later put sets a new TTL, keeps it ([KeepTTL]), or removes it.
func TTL(d time.Duration) WriteOption { return ttl(d) }

type ttl time.Duration

func (d ttl) put(op *fanoutv1.PutOperation) {
	op.Ttl, op.KeepTtl = durationpb.New(time.Duration(d)), false
}

// KeepTTL keeps the time to live of the object that the put replaces, if it has one.
func KeepTTL() WriteOption { return keepTTL{} }

type keepTTL struct{}

func (keepTTL) put(op *fanoutv1.PutOperation) { op.Ttl, op.KeepTtl = nil, true }

// OverwriteOpaque replaces the object even if its value is opaque ([Object.Opaque]). Such a value may
// belong to another program. Without this option, the put fails with [ErrOpaqueValue].
func OverwriteOpaque() WriteOption { return overwriteOpaque{} }

type overwriteOpaque struct{}

func (overwriteOpaque) put(op *fanoutv1.PutOperation) { op.OverwriteOpaque = true }

// SkipValidation writes although the validation rules of the resource refuse it. The caller needs the right
// "skip-validation" as well, and the audit log notes it. In a transaction, one operation with this option is enough
// for all.
func SkipValidation() interface {
	WriteOption
	DeleteOption
} {
	return skipValidation{}
}

type skipValidation struct{}

func (skipValidation) put(*fanoutv1.PutOperation)       {}
func (skipValidation) delete(*fanoutv1.DeleteOperation) {}

// skipsValidation reports whether SkipValidation is one of the options.
func skipsValidation[O any](opts []O) bool {
	return slices.ContainsFunc(opts, func(o O) bool { return any(o) == any(skipValidation{}) })
}

// Validate asks the server whether the validation rules of the resource allow a put, and writes nothing. A refusal
// is an [Error] with the reason [ErrValueRefused]; [Error.Violations] has the faults. Preconditions are not compared,
// but [IfAbsent] means that there is no object. The caller needs the right to put the object.
func (r *Resource) Validate(ctx context.Context, key string, v Value, opts ...WriteOption) error {
	op, err := putOperation(key, v, opts)
	if err != nil {
		return fmt.Errorf("validate %q: %w", key, err)
	}
	req := &fanoutv1.PutRequest{Resource: r.name, Put: op, ValidateOnly: true}
	if err := checkUTF8(req); err != nil {
		return fmt.Errorf("validate %q: %w", key, err)
	}
	if _, err = r.client.writes.Put(ctx, req); err != nil {
		return fmt.Errorf("validate %q: %w", key, errorOf(err))
	}
	return nil
}

// ValidateDelete is [Resource.Validate] for a deletion. The caller needs the right to delete the object.
func (r *Resource) ValidateDelete(ctx context.Context, key string) error {
	req := &fanoutv1.DeleteRequest{Resource: r.name, Delete: deleteOperation(key, nil), ValidateOnly: true}
	if err := checkUTF8(req); err != nil {
		return fmt.Errorf("validate the deletion of %q: %w", key, err)
	}
	if _, err := r.client.writes.Delete(ctx, req); err != nil {
		return fmt.Errorf("validate the deletion of %q: %w", key, errorOf(err))
	}
	return nil
}

// Put stores an object and returns the revision of the write.
//
// A write that fails with a code such as Unavailable may have been applied. The client
// does not retry it, because only the caller knows whether writing twice does harm.
func (r *Resource) Put(ctx context.Context, key string, v Value, opts ...WriteOption) (revision int64, err error) {
	op, err := putOperation(key, v, opts)
	if err != nil {
		return 0, fmt.Errorf("put %q: %w", key, err)
	}
	req := &fanoutv1.PutRequest{Resource: r.name, Put: op, Message: r.message, SkipValidation: skipsValidation(opts)}
	if err := checkUTF8(req); err != nil {
		return 0, fmt.Errorf("put %q: %w", key, err)
	}
	resp, err := r.client.writes.Put(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("put %q: %w", key, errorOf(err))
	}
	return resp.GetRevision(), nil
}

// Outcome is the result of [Resource.TryPut] and [Resource.TryDelete].
type Outcome struct {
	// Applied reports whether the precondition held. If it is false, nothing was written.
	Applied bool
	// Revision is the revision of the write, or of the comparison if Applied is false.
	Revision int64
	// Deleted reports whether an object was removed.
	Deleted bool
	// Object is the object that was removed, or the current one if Applied is false. It is
	// nil if there is none.
	Object *Object
}

// TryPut is Put, except that a precondition that does not hold is not an error: the
// outcome has the current object, from the same round trip. The caller needs the right to
// get the object as well.
func (r *Resource) TryPut(ctx context.Context, key string, v Value, opts ...WriteOption) (*Outcome, error) {
	op, err := putOperation(key, v, opts)
	if err != nil {
		return nil, fmt.Errorf("put %q: %w", key, err)
	}
	req := &fanoutv1.PutRequest{Resource: r.name, Put: op, ReturnCurrent: true, JsonValues: r.jsonValues, Message: r.message, SkipValidation: skipsValidation(opts)}
	if err := checkUTF8(req); err != nil {
		return nil, fmt.Errorf("put %q: %w", key, err)
	}
	resp, err := r.client.writes.Put(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("put %q: %w", key, errorOf(err))
	}
	return &Outcome{Applied: resp.GetApplied(), Revision: resp.GetRevision(), Object: objectOf(resp.GetObject())}, nil
}

// TryDelete is Delete, except that the outcome has the object that was removed, and that a
// precondition that does not hold is not an error: the outcome has the current object. The
// caller needs the right to get the object as well.
func (r *Resource) TryDelete(ctx context.Context, key string, opts ...DeleteOption) (*Outcome, error) {
	op := deleteOperation(key, opts)
	op.ReturnDeleted = true
	req := &fanoutv1.DeleteRequest{Resource: r.name, Delete: op, ReturnCurrent: true, JsonValues: r.jsonValues, Message: r.message, SkipValidation: skipsValidation(opts)}
	if err := checkUTF8(req); err != nil {
		return nil, fmt.Errorf("delete %q: %w", key, err)
	}
	resp, err := r.client.writes.Delete(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("delete %q: %w", key, errorOf(err))
	}
	return &Outcome{
		Applied: resp.GetApplied(), Revision: resp.GetRevision(), Deleted: resp.GetDeleted(), Object: objectOf(resp.GetObject()),
	}, nil
}

// Delete removes an object. A missing object is not an error: deleted is false then,
// and revision is one at which there was no such object.
func (r *Resource) Delete(ctx context.Context, key string, opts ...DeleteOption) (revision int64, deleted bool, err error) {
	req := &fanoutv1.DeleteRequest{Resource: r.name, Delete: deleteOperation(key, opts), Message: r.message, SkipValidation: skipsValidation(opts)}
	if err := checkUTF8(req); err != nil {
		return 0, false, fmt.Errorf("delete %q: %w", key, err)
	}
	resp, err := r.client.writes.Delete(ctx, req)
	if err != nil {
		return 0, false, fmt.Errorf("delete %q: %w", key, errorOf(err))
	}
	return resp.GetRevision(), resp.GetDeleted(), nil
}

// Update reads an object, calls change to compute its new value, and writes that if
// the object has not changed meanwhile. Otherwise it starts over, until it succeeds or
// ctx ends. So change may be called several times and should have no side effects.
//
// old is nil if there is no object. If change returns nil, the object stays as it is;
// an error ends the update and is returned. Update returns the revision of the write,
// or the ModRevision of the object if nothing was written. The object keeps its labels and content type
// unless the value has others ([Value.WithLabels]), and its time to live unless the option [TTL] sets
// another one. The default timeout ([WithRequestTimeout]) is for all of it.
func (r *Resource) Update(ctx context.Context, key string, change func(old *Object) (*Value, error), opts ...WriteOption) (revision int64, err error) {
	ctx, cancel := r.client.withRequestTimeout(ctx)
	defer cancel()
	retry := backoff{first: 5 * time.Millisecond, most: time.Second}
	for {
		old, err := r.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, fmt.Errorf("update: %w", err)
		}
		var at int64
		if old != nil {
			at = old.ModRevision
		}
		v, err := change(old)
		if err != nil {
			return 0, fmt.Errorf("update %q: %w", key, err)
		}
		if v == nil {
			return at, nil
		}
		revision, err := r.Put(ctx, key, v.keeping(old, r.jsonValues), slices.Concat([]WriteOption{KeepTTL()}, opts, []WriteOption{IfRevision(at)})...)
		if err == nil {
			return revision, nil
		}
		if !errors.Is(err, ErrPreconditionFailed) {
			return 0, fmt.Errorf("update: %w", err)
		}
		if sleep(ctx, retry.next()) != nil {
			return 0, fmt.Errorf("update: %w", errorOf(deadlineError(status.FromContextError(ctx.Err()).Err(), err)))
		}
	}
}

// Op is one operation of a transaction: [OpPut], [OpDelete] or [OpCheck].
type Op struct {
	operation *fanoutv1.Operation
	skips     bool // SkipValidation
	err       error
}

// OpPut stores an object.
func OpPut(key string, v Value, opts ...WriteOption) Op {
	op, err := putOperation(key, v, opts)
	if err != nil {
		return Op{err: fmt.Errorf("put %q: %w", key, err)}
	}
	return Op{skips: skipsValidation(opts), operation: &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: op}}}
}

// OpDelete removes an object if there is one.
func OpDelete(key string, opts ...DeleteOption) Op {
	return Op{skips: skipsValidation(opts), operation: &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: deleteOperation(key, opts)}}}
}

// OpCheck writes nothing. It requires that the object has this ModRevision; 0 requires
// that there is no such object.
func OpCheck(key string, modRevision int64) Op {
	return Op{operation: &fanoutv1.Operation{Operation: &fanoutv1.Operation_Check{
		Check: &fanoutv1.CheckOperation{Key: key, ModRevision: &modRevision},
	}}}
}

// Transaction is the result of a transaction.
type Transaction struct {
	// Revision is the revision of all its writes.
	Revision int64
	// Deleted says, for each operation, whether it deleted an object.
	Deleted []bool
}

// Transact applies all operations at one revision, or none of them. Each operation
// must have a key of its own. Servers accept 128 operations unless they are configured
// otherwise.
func (r *Resource) Transact(ctx context.Context, ops ...Op) (*Transaction, error) {
	req := &fanoutv1.TransactRequest{Resource: r.name, Message: r.message}
	for _, op := range ops {
		if op.err != nil {
			return nil, fmt.Errorf("transact: %w", op.err)
		}
		req.Operations = append(req.Operations, op.operation)
		req.SkipValidation = req.GetSkipValidation() || op.skips
	}
	if err := checkUTF8(req); err != nil {
		return nil, fmt.Errorf("transact: %w", err)
	}
	resp, err := r.client.writes.Transact(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("transact: %w", errorOf(err))
	}
	t := &Transaction{Revision: resp.GetRevision()}
	for _, result := range resp.GetResults() {
		t.Deleted = append(t.Deleted, result.GetDeleted())
	}
	return t, nil
}

func putOperation(key string, v Value, opts []WriteOption) (*fanoutv1.PutOperation, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	op := &fanoutv1.PutOperation{Key: key, ContentType: v.ContentType, Labels: v.Labels}
	if v.isText() {
		op.Value = &fanoutv1.PutOperation_Text{Text: string(v.Data)}
	} else {
		op.Value = &fanoutv1.PutOperation_Data{Data: v.Data}
	}
	for _, o := range opts {
		o.put(op)
	}
	return op, nil
}

func deleteOperation(key string, opts []DeleteOption) *fanoutv1.DeleteOperation {
	op := &fanoutv1.DeleteOperation{Key: key}
	for _, o := range opts {
		o.delete(op)
	}
	return op
}
