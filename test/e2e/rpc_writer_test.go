package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// rpcWriter writes through StoreService at random.
type rpcWriter struct {
	name   string // also the value of a label
	pace   *pace
	store  fanoutv1.StoreServiceClient
	rng    *rand.Rand
	ledger *ledger
	writes int
}

// run writes until the context until ends. It repeats a write that a stopping server
// refused or did not answer. The write may be applied twice: the truth comes from etcd's
// history.
func (w *rpcWriter) run(ctx, until context.Context) error {
	for w.pace.next(until) {
		w.writes++
		write, err := w.next()
		if err != nil {
			return err
		}
		for {
			err := write(ctx)
			if status.Code(err) == codes.Unavailable && w.pace.next(ctx) {
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			break
		}
	}
	return nil
}

// next returns the next write. It can be repeated.
func (w *rpcWriter) next() (func(context.Context) error, error) {
	switch n := w.rng.IntN(100); {
	case n < 45:
		put, err := w.randomPut(randomKey(w.rng))
		return w.put(put), err
	case n < 60:
		return w.delete(&fanoutv1.DeleteOperation{Key: randomKey(w.rng)}), nil
	default:
		return w.transact()
	}
}

func (w *rpcWriter) put(put *fanoutv1.PutOperation) func(context.Context) error {
	return func(ctx context.Context) error {
		begun := w.ledger.begin()
		answer, err := w.store.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: put})
		if err != nil {
			return conflictIsFine(err)
		}
		begun.acknowledged(answer.GetRevision(), object.Key(put.GetKey()))
		return nil
	}
}

func (w *rpcWriter) delete(op *fanoutv1.DeleteOperation) func(context.Context) error {
	return func(ctx context.Context) error {
		begun := w.ledger.begin()
		answer, err := w.store.Delete(ctx, &fanoutv1.DeleteRequest{Resource: resource, Delete: op})
		if err != nil {
			return conflictIsFine(err)
		}
		if answer.GetDeleted() {
			begun.acknowledged(answer.GetRevision(), object.Key(op.GetKey()))
		}
		return nil
	}
}

func (w *rpcWriter) transact() (func(context.Context) error, error) {
	request := &fanoutv1.TransactRequest{Resource: resource}
	for _, key := range randomKeys(w.rng, 2+w.rng.IntN(20)) {
		op := &fanoutv1.Operation{}
		switch n := w.rng.IntN(100); {
		case n < 70:
			put, err := w.randomPut(key)
			if err != nil {
				return nil, err
			}
			op.Operation = &fanoutv1.Operation_Put{Put: put}
		case n < 99:
			op.Operation = &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: key}}
		default:
			op.Operation = &fanoutv1.Operation_Check{Check: &fanoutv1.CheckOperation{Key: key, ModRevision: new(int64(0))}}
		}
		request.Operations = append(request.Operations, op)
	}
	return func(ctx context.Context) error {
		begun := w.ledger.begin()
		answer, err := w.store.Transact(ctx, request)
		if err != nil {
			return conflictIsFine(err)
		}
		if len(answer.GetResults()) != len(request.GetOperations()) {
			return fmt.Errorf("got %d results for %d operations", len(answer.GetResults()), len(request.GetOperations()))
		}
		var changed []object.Key
		for i, op := range request.GetOperations() {
			if put := op.GetPut(); put != nil {
				changed = append(changed, object.Key(put.GetKey()))
			}
			if answer.GetResults()[i].GetDeleted() {
				changed = append(changed, object.Key(op.GetDelete().GetKey()))
			}
		}
		begun.acknowledged(answer.GetRevision(), changed...)
		return nil
	}, nil
}

// randomPut returns a put of text, bytes, an empty value or a document. Sometimes its
// precondition is that the key does not exist.
func (w *rpcWriter) randomPut(key string) (*fanoutv1.PutOperation, error) {
	put := &fanoutv1.PutOperation{Key: key, Labels: randomLabels(w.rng, w.name)}
	text, err := randomDocument(w.rng, w.name, w.writes)
	if err != nil {
		return nil, err
	}
	switch w.rng.IntN(10) {
	case 0:
		put.Value = &fanoutv1.PutOperation_Data{Data: []byte{0xff, byte(w.writes), 0x00}}
	case 1: // an empty value
	case 2:
		put.Value = &fanoutv1.PutOperation_Text{Text: strings.Repeat(text, 50)}
	default:
		put.Value = &fanoutv1.PutOperation_Text{Text: text}
		put.ContentType = contentJSON
	}
	if w.rng.IntN(40) == 0 {
		put.IfModRevision = new(int64)
	}
	return put, nil
}

// conflictIsFine ignores a failed precondition, and a write that gave up: other writers were faster.
func conflictIsFine(err error) error {
	if code := status.Code(err); code == codes.FailedPrecondition || code == codes.Aborted {
		return nil
	}
	return err
}
