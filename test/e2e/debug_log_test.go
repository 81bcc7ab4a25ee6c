package e2e

import (
	"strings"
	"syscall"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestDebugLogHasNoValues checks that even the most detailed log has no values, neither of
// fanoutd nor of the embedded etcd.
func TestDebugLogHasNoValues(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	s := startServer(t, append(embedded(t, loopback.FreeAddress(t)), "--log-level", "debug")...)
	value := &fanoutv1.PutOperation_Data{Data: []byte(secret)}
	put(t, s.conn, "a", []byte(secret))
	store := fanoutv1.NewStoreServiceClient(s.conn)
	if _, err := store.Transact(t.Context(), &fanoutv1.TransactRequest{Resource: resource, Operations: []*fanoutv1.Operation{
		{Operation: &fanoutv1.Operation_Put{Put: &fanoutv1.PutOperation{Key: "a", Value: value}}},
		{Operation: &fanoutv1.Operation_Put{Put: &fanoutv1.PutOperation{Key: "b", Value: value}}},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{Key: "\xff", Value: value}}); err == nil {
		t.Error("a key with invalid UTF-8 was accepted")
	}
	fanout := fanoutv1.NewFanoutServiceClient(s.conn)
	if _, err := fanout.Get(t.Context(), &fanoutv1.GetRequest{Resource: resource, Key: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := fanout.List(t.Context(), &fanoutv1.ListRequest{Resource: resource}); err != nil {
		t.Fatal(err)
	}
	s.end(t, syscall.SIGTERM)
	log := s.output(t)
	if !strings.Contains(log, "level=DEBUG") {
		t.Error("the log has no line of the level DEBUG")
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, secret) {
			t.Errorf("the log has a value: %s", line)
		}
	}
}
