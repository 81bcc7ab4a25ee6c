package server_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
)

// believer accepts every token. The token is the name of the client, followed by groups.
type believer struct{}

func (believer) Verify(_ context.Context, token string) (access.Pass, error) {
	names := strings.Split(token, ",")
	return access.Pass{Identity: access.Identity{Name: names[0], Groups: names[1:], Method: access.JWT}}, nil
}

// bearer sends a token for believer: a name and groups, separated by commas.
type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

func (b bearer) RequireTransportSecurity() bool { return false }

// as returns the instance with a connection that is authenticated with a name and groups.
func (in *instance) as(t *testing.T, names ...string) *instance {
	t.Helper()
	caller := *in
	caller.conn = dial(t, in.address, grpc.WithPerRPCCredentials(bearer(strings.Join(names, ","))))
	caller.reads, caller.writes = fanoutv1.NewFanoutServiceClient(caller.conn), fanoutv1.NewStoreServiceClient(caller.conn)
	return &caller
}

// usePolicy changes the policy of an instance that began with one.
func (in *instance) usePolicy(t *testing.T, text string) {
	t.Helper()
	in.server.UsePolicy(readPolicy(t, text))
}

func readPolicy(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
