package calls

import (
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"

	"github.com/fanoutd/fanoutd/bench/internal/load"
)

// method is a unary method of a gRPC server.
type method struct {
	path    string
	request func(key string, value []byte) proto.Message
	reads   bool // the answer contains the value
}

// methods are the methods of gRPC servers, by protocol and name.
var methods = map[string]map[string]method{
	"fanoutd": {
		MethodPut: {path: fanoutv1.StoreService_Put_FullMethodName, request: func(key string, value []byte) proto.Message {
			return &fanoutv1.PutRequest{Resource: load.Resource, Put: &fanoutv1.PutOperation{
				Key: key, Value: &fanoutv1.PutOperation_Data{Data: value},
			}}
		}},
		MethodGet: {path: fanoutv1.FanoutService_Get_FullMethodName, reads: true, request: func(key string, _ []byte) proto.Message {
			return &fanoutv1.GetRequest{Resource: load.Resource, Key: key}
		}},
		MethodGetAny: {path: fanoutv1.FanoutService_Get_FullMethodName, reads: true, request: func(key string, _ []byte) proto.Message {
			return &fanoutv1.GetRequest{Resource: load.Resource, Key: key, Consistency: &fanoutv1.ReadConsistency{
				Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}},
			}}
		}},
	},
	"etcd": {
		MethodPut: {path: etcdserverpb.KV_Put_FullMethodName, request: func(key string, value []byte) proto.Message {
			return &etcdserverpb.PutRequest{Key: []byte(load.Prefix + key), Value: value}
		}},
		MethodGet: {path: etcdserverpb.KV_Range_FullMethodName, reads: true, request: func(key string, _ []byte) proto.Message {
			return &etcdserverpb.RangeRequest{Key: []byte(load.Prefix + key)}
		}},
		MethodGetAny: {path: etcdserverpb.KV_Range_FullMethodName, reads: true, request: func(key string, _ []byte) proto.Message {
			return &etcdserverpb.RangeRequest{Key: []byte(load.Prefix + key), Serializable: true}
		}},
	},
	ProtocolEmpty: {
		MethodEmpty: {path: emptyPath, request: func(string, []byte) proto.Message { return &emptypb.Empty{} }},
	},
}
