package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// site is a fanoutd with the resources of a shop, its watchers, and its status page.
type site struct {
	*inprocess.Server
	cfg    config.Config
	url    string
	conn   *grpc.ClientConn
	client http.Client
}

// start starts a server and waits until it serves.
func start(t *testing.T, change ...func(*config.Config)) *site {
	t.Helper()
	return startFor(t, "", change...)
}

// bearer is an optional token for each call.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }

// startFor starts a server for a caller with a token.
func startFor(t *testing.T, token bearer, change ...func(*config.Config)) *site {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.AdminListen = loopback.FreeAddress(t)
	flags := config.NewResource("flags")
	flags.Codec = "json"
	flags.Fields = []config.Field{{Name: "owner", Path: "owner", Indexed: true}}
	audit := config.NewResource("audit")
	audit.Cache = false
	cfg.Resources = append(cfg.Resources, flags, audit)
	for _, c := range change {
		c(&cfg)
	}
	s := &site{Server: inprocess.Start(t, cfg), cfg: cfg, url: "http://" + cfg.AdminListen + "/"}
	s.client.Transport = &http.Transport{DisableKeepAlives: true}
	s.conn = dial(t, cfg.Listen, grpc.WithPerRPCCredentials(token))
	s.awaitServing(t)
	return s
}

func dial(t *testing.T, address string, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, append(more, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// awaitServing waits until all resources are served.
func (s *site) awaitServing(t *testing.T) {
	t.Helper()
	for _, r := range s.cfg.Resources {
		for {
			_, err := fanoutv1.NewFanoutServiceClient(s.conn).List(t.Context(), &fanoutv1.ListRequest{Resource: r.Name}, grpc.WaitForReady(true))
			if err == nil {
				break
			}
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
	}
}

// put stores a text, with labels as names and values.
func (s *site) put(t *testing.T, resource, key, text string, labels ...string) {
	t.Helper()
	put := &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}, Labels: map[string]string{}}
	if strings.HasPrefix(text, "{") && resource != "flags" {
		put.ContentType = "application/json"
	}
	for i := 0; i < len(labels); i += 2 {
		put.Labels[labels[i]] = labels[i+1]
	}
	s.write(t, resource, put)
}

func (s *site) write(t *testing.T, resource string, put *fanoutv1.PutOperation) {
	t.Helper()
	_, err := fanoutv1.NewStoreServiceClient(s.conn).Put(t.Context(), &fanoutv1.PutRequest{Resource: resource, Put: put}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatalf("put %s: %v", put.GetKey(), err)
	}
}

func (s *site) delete(t *testing.T, resource, key string) {
	t.Helper()
	_, err := fanoutv1.NewStoreServiceClient(s.conn).Delete(t.Context(), &fanoutv1.DeleteRequest{
		Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: key},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ask calls the JSON API as the page does.
func ask[T any, P interface {
	*T
	proto.Message
}](t *testing.T, s *site, path string,
) P {
	t.Helper()
	resp, err := s.client.Get(s.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %d %s %v", path, resp.StatusCode, body, err)
	}
	p := P(new(T))
	if err := protojson.Unmarshal(body, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// resource returns a resource's status from the API.
func (s *site) resource(t *testing.T, name string) *fanoutv1.ResourceStatus {
	t.Helper()
	for _, r := range ask[fanoutv1.ListResourcesResponse](t, s, "v1/resources?measure_lag=true").GetResources() {
		if r.GetName() == name {
			return r
		}
	}
	t.Fatalf("no resource %s", name)
	return nil
}

// watch starts a watch that is read at once, until the test ends.
func (s *site) watch(t *testing.T, userAgent string, req *fanoutv1.WatchRequest) {
	t.Helper()
	stream := s.begin(t, req, grpc.WithUserAgent(userAgent))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// begin starts a watch, and returns when the server has registered it.
func (s *site) begin(t *testing.T, req *fanoutv1.WatchRequest, options ...grpc.DialOption) grpc.ServerStreamingClient[fanoutv1.WatchResponse] {
	t.Helper()
	conn := dial(t, s.cfg.Listen, options...)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, req, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	return stream
}

// watchStuck starts a watch that is never read, and returns when this many events wait for
// it.
func (s *site) watchStuck(t *testing.T, userAgent, key string, waiting int) {
	t.Helper()
	s.begin(t, &fanoutv1.WatchRequest{Resource: "config", Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}, Scope: only(key)},
		grpc.WithUserAgent(userAgent), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	large := strings.Repeat("x", 300<<10)
	for {
		s.put(t, "config", key, large)
		for _, w := range ask[fanoutv1.ListWatchersResponse](t, s, "v1/watchers").GetWatchers() {
			if strings.HasPrefix(w.GetUserAgent(), userAgent) && w.GetBlocked() && w.GetLagEvents() >= int64(waiting) {
				return
			}
		}
	}
}

func below(path string) *fanoutv1.Scope {
	return &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: path}}
}

func only(key string) *fanoutv1.Scope {
	return &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}
}

// fill writes the objects of the shop.
func (s *site) fill(t *testing.T) {
	t.Helper()
	for i, team := range []string{"cart", "search", "payment", "stock"} {
		for j, env := range []string{"prod", "test"} {
			s.put(t, "config", fmt.Sprintf("shop/%s/limits-%s", team, env), fmt.Sprintf(`{"rps": %d, "burst": %d}`, 100*(i+1), 20*(j+1)), "env", env, "team", team)
		}
		s.put(t, "flags", "checkout/"+team, fmt.Sprintf(`{"owner": %q, "on": true}`, team))
	}
	s.put(t, "audit", "2026/11", "kept in etcd only")
}

// grpcVersion is the suffix that gRPC adds to a client's user agent.
const grpcVersion = "grpc-go/" + grpc.Version
