package robustness

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/model"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// keys are the keys of the resource: few, so that clients get in each other's way,
// and with neighbours that a careless comparison confuses.
var keys = []string{"a", "a/0", "a/1", "a/2", "ab/0", "b/0", "b/1", "b/x/0", "b/x/1", "c"}

// paths are the prefixes that are read and watched.
var paths = []string{"a", "ab", "b", "b/x"}

// span is a part of the resource: how fanoutd is asked for it, and which keys of
// etcd these are.
type span struct {
	scope         *fanoutv1.Scope
	fieldSelector string
	startKey      string // for lists only

	from, to string // to is empty: the key from alone
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

// selected is what exactly is, by other means: fanoutd has to look at every
// object.
func selected(key string) span {
	return span{fieldSelector: "key=" + key, from: prefix + key}
}

func startingAt(key string) span {
	return span{startKey: key, from: prefix + key, to: clientv3.GetPrefixRangeEnd(prefix)}
}

// state is what somebody was told, or had to conclude, about a span: these are
// its objects at that revision.
type state struct {
	span
	revision int64
	objects  []*mvccpb.KeyValue // in order of their keys
}

// response returns the state as etcd would have told it.
func (s state) response() *clientv3.GetResponse {
	return &clientv3.GetResponse{Header: header(s.revision), Kvs: s.objects, Count: int64(len(s.objects))}
}

// stored returns an object as etcd has it. Its create revision is not judged.
func stored(o *fanoutv1.Object) *mvccpb.KeyValue {
	return &mvccpb.KeyValue{Key: []byte(prefix + o.GetKey()), Value: value(o), ModRevision: o.GetModRevision(), Version: o.GetVersion()}
}

// value returns the value of an object, in whichever of the two fields it is.
func value(o *fanoutv1.Object) []byte {
	if text := o.GetText(); text != "" {
		return []byte(text)
	}
	return o.GetData()
}

// valueRevision returns an object as the model has it.
func valueRevision(kv *mvccpb.KeyValue) model.ValueRevision {
	return model.ValueRevision{Value: model.ToValueOrHash(string(kv.Value)), ModRevision: kv.ModRevision, Version: kv.Version}
}
