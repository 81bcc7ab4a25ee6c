package e2e

import (
	"testing"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// put stores an object and returns the revision of the write.
func put(t *testing.T, conn *grpc.ClientConn, key string, value []byte) int64 {
	t.Helper()
	answer, err := fanoutv1.NewStoreServiceClient(conn).Put(t.Context(), &fanoutv1.PutRequest{
		Resource: resource,
		Put:      &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Data{Data: value}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetRevision()
}
