package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
)

// etcdWriter writes directly to etcd at random, like a program that does not know
// fanoutd. It also writes values without an envelope and keys outside of the resource,
// and deletes many keys at once.
type etcdWriter struct {
	name   string // also the value of a label
	pace   *pace
	client *clientv3.Client
	rng    *rand.Rand
	ledger *ledger
	writes int
}

// run writes until the context until ends. It repeats a write that got no answer because
// the embedded etcd stopped with its server.
func (w *etcdWriter) run(ctx, until context.Context) error {
	for w.pace.next(until) {
		w.writes++
		ops, err := w.next()
		if err != nil {
			return err
		}
		for {
			err := w.apply(ctx, ops)
			if transient(err) && w.pace.next(ctx) {
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

// transient reports whether an error comes from an etcd that is stopping or starting.
func transient(err error) bool {
	code := status.Code(err)
	if known, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = known.Code() // for example: no leader
	}
	switch code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	}
	return err != nil && strings.Contains(err.Error(), "etcdserver: server stopped")
}

// next returns the operations of one transaction.
func (w *etcdWriter) next() ([]clientv3.Op, error) {
	switch n := w.rng.IntN(100); {
	case n < 10:
		return []clientv3.Op{clientv3.OpPut("/elsewhere/"+randomKey(w.rng), "x")}, nil
	case n < 15:
		// The prefix of the resource is also a prefix of this key.
		return []clientv3.Op{clientv3.OpPut(strings.TrimSuffix(etcdPrefix, "/")+"-not/"+randomKey(w.rng), "x")}, nil
	case n < 18:
		prefix := fmt.Sprintf("%steam-%d/svc-%d/", etcdPrefix, w.rng.IntN(teams), w.rng.IntN(services))
		return []clientv3.Op{clientv3.OpDelete(prefix, clientv3.WithPrefix(), clientv3.WithPrevKV())}, nil
	case n < 40:
		return []clientv3.Op{clientv3.OpDelete(etcdPrefix+randomKey(w.rng), clientv3.WithPrevKV())}, nil
	}
	count := 1
	if w.rng.IntN(2) == 0 {
		count += w.rng.IntN(10)
	}
	var ops []clientv3.Op
	for _, key := range randomKeys(w.rng, count) {
		value, err := w.randomValue()
		if err != nil {
			return nil, err
		}
		ops = append(ops, clientv3.OpPut(etcdPrefix+key, value))
	}
	return ops, nil
}

func (w *etcdWriter) randomValue() (string, error) {
	text, err := randomDocument(w.rng, w.name, w.writes)
	if err != nil {
		return "", err
	}
	switch w.rng.IntN(10) {
	case 0:
		return text, nil // text without an envelope
	case 1:
		return "\xff" + text, nil // bytes that are not UTF-8
	case 2:
		return "", nil
	}
	sealed, err := encodeEnvelope(contentJSON, randomLabels(w.rng, w.name), []byte(text))
	return string(sealed), err
}

func (w *etcdWriter) apply(ctx context.Context, ops []clientv3.Op) error {
	begun := w.ledger.begin()
	answer, err := w.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return err
	}
	var changed []object.Key
	note := func(key []byte) {
		if key, ok := strings.CutPrefix(string(key), etcdPrefix); ok {
			changed = append(changed, object.Key(key))
		}
	}
	for i, op := range ops {
		if op.IsPut() {
			note(op.KeyBytes())
		}
		for _, kv := range answer.Responses[i].GetResponseDeleteRange().GetPrevKvs() {
			note(kv.Key)
		}
	}
	begun.acknowledged(answer.Header.GetRevision(), changed...)
	return nil
}
