package admin

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/grpc_channelz_v1"
	channelz "google.golang.org/grpc/channelz/service"

	"github.com/fanoutd/fanoutd/internal/access"
)

// serviceKeeper keeps the implementation of the service that is registered with it.
type serviceKeeper struct{ service any }

func (k *serviceKeeper) RegisterService(_ *grpc.ServiceDesc, service any) { k.service = service }

// CheckChannelz enables channelz, and returns an error if it was on before, or if
// EnableChannelz has no effect. It must run before the process has any gRPC connection.
func CheckChannelz() error {
	k := &serviceKeeper{}
	channelz.RegisterChannelzServiceToServer(k)
	made := func() (listed int, err error) {
		defer grpc.NewServer().Stop()
		servers, err := k.service.(grpc_channelz_v1.ChannelzServer).GetServers(context.Background(), &grpc_channelz_v1.GetServersRequest{})
		return len(servers.GetServer()), err
	}
	if state := atomic.LoadInt32(&channelzState); state != 0 {
		return fmt.Errorf("channelz is on by default: the state is %d", state)
	}
	if n, err := made(); err != nil || n != 0 {
		return fmt.Errorf("while channelz is off it lists %d servers, %w", n, err)
	}
	EnableChannelz()
	if n, err := made(); err != nil || n != 1 {
		return fmt.Errorf("while channelz is on it lists %d servers, want 1: %w", n, err)
	}
	return nil
}

// ForEveryone returns the configuration with functions that limit nothing, where it has none.
func (c Config) ForEveryone() Config {
	everyone := func(context.Context, access.HTTPRequest) error { return nil }
	if c.Operator == nil {
		c.Operator = everyone
	}
	if c.Scraper == nil {
		c.Scraper = everyone
	}
	if c.Receive == nil {
		c.Receive = func(context.Context, access.HTTPRequest, int64) (func(), error) { return func() {}, nil }
	}
	if c.Rights == nil {
		c.Rights = func(context.Context, access.HTTPRequest, string, string) ([]string, error) { return nil, nil }
	}
	if c.Unready == nil {
		c.Unready = func() string { return "" }
	}
	if c.LimitStreams == nil {
		c.LimitStreams = func(conn net.Conn) net.Conn { return conn }
	}
	if c.HandshakeFailed == nil {
		c.HandshakeFailed = func(string, error) {}
	}
	return c
}
