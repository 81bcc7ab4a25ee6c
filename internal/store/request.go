package store

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// The functions below return the parts of an etcd transaction. Those of etcd's client would copy
// each of them once more.

func hasModRevision(key []byte, r object.Revision) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_MOD, Key: key, TargetUnion: &pb.Compare_ModRevision{ModRevision: int64(r)}}
}

func hasLease(key []byte, id clientv3.LeaseID) *pb.Compare {
	return &pb.Compare{Target: pb.Compare_LEASE, Key: key, TargetUnion: &pb.Compare_Lease{Lease: int64(id)}}
}

func exists(key []byte) *pb.Compare {
	return &pb.Compare{
		Target: pb.Compare_CREATE, Key: key,
		Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 0},
	}
}

func readOp(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// readLease reads a key with its lease, but without its value; 0 is the present revision. By default,
// etcd 3.7 answers a read without values from its index, which has no leases. It does not if the
// order depends on values.
func readLease(key []byte, at int64) *pb.RequestOp {
	return readOp(&pb.RangeRequest{
		Key: key, Revision: at, KeysOnly: true,
		SortTarget: pb.RangeRequest_VALUE, SortOrder: pb.RangeRequest_ASCEND,
	})
}

func putOp(r *pb.PutRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}}
}

func deleteOp(r *pb.DeleteRangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}
}

func nestedOp(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}
