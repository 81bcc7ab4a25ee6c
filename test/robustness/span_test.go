package robustness

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/model"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// keys are the keys of the resource. They are few, so that clients conflict, and some
// are neighbors that a careless prefix comparison confuses.
var keys = []string{"a", "a/0", "a/1", "a/2", "ab/0", "b/0", "b/1", "b/x/0", "b/x/1", "c"}

// paths are the prefixes that clients read and watch.
var paths = []string{"a", "ab", "b", "b/x"}

// span is a part of the resource, as a request to fanoutd and as a range of keys in
// etcd.
type span struct {
	scope         *fanoutv1.Scope
	fieldSelector string
	startKey      string // for lists only

	from, to string // if to is empty, only the key from
}

func whole() span {
	return span{from: prefix, to: clientv3.GetPrefixRangeEnd(prefix)}
}

func below(path string) span {
	from := prefix + path + "/"
	return span{scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: path}}, from: from, to: clientv3.GetPrefixRangeEnd(from)}
}

func exactly(key string) span {
	return span{scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}, from: prefix + key}
}

// selected picks the same object as exactly, but with a field selector, so that fanoutd
// has to look at every object.
func selected(key string) span {
	return span{fieldSelector: "key=" + key, from: prefix + key}
}

func startingAt(key string) span {
	return span{startKey: key, from: prefix + key, to: clientv3.GetPrefixRangeEnd(prefix)}
}

// state is the content of a span at a revision, as a read returned it or a watcher
// derived it.
type state struct {
	span
	revision int64
	objects  []*mvccpb.KeyValue // in order of their keys
}

// response returns the state as a response of etcd.
func (s state) response() *clientv3.GetResponse {
	return &clientv3.GetResponse{Header: header(s.revision), Kvs: s.objects, Count: int64(len(s.objects))}
}

// stored returns an object as etcd stores it. The validator ignores its create revision.
func stored(o *fanoutv1.Object) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(prefix + o.GetKey()), Value: value(o), ModRevision: o.GetModRevision(), Version: o.GetVersion()}
}

// value returns the value of an object, from whichever field has it.
func value(o *fanoutv1.Object) []byte {
	if text := o.GetText(); text != "" {
		return []byte(text)
	}
	return o.GetData()
}

// valueRevision converts an object to the type of the model.
func valueRevision(kv *mvccpb.KeyValue) model.ValueRevision {
	return model.ValueRevision{Value: model.ToValueOrHash(string(kv.Value)), ModRevision: kv.ModRevision, Version: kv.Version}
}
