package app_test

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// machines returns the configurations of the servers of a cluster, by name, each with a loopback address
// of its own.
func machines(t *testing.T, names ...string) map[string]config.Config {
	t.Helper()
	all := config.NewCluster()
	all.ClientPort = 10_000 + rand.IntN(10_000)
	all.Members = map[string]string{}
	for _, name := range names {
		all.Members[name] = loopback.FreeAddress(t)
	}
	configs := map[string]config.Config{}
	for _, name := range names {
		cfg := testConfig(t)
		cfg.Listen, cfg.DataDir = loopback.FreeAddress(t), filepath.Join(t.TempDir(), name)
		own := *all
		own.Name = name
		cfg.Cluster = &own
		if problems := cfg.Problems(); len(problems) > 0 {
			t.Fatal(problems)
		}
		configs[name] = cfg
	}
	return configs
}

// machine is a running server of a cluster, or one that waits for others.
type machine struct {
	log    logs.Buffer
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan error
}

// launch starts a server without waiting for others.
func launch(t *testing.T, cfg config.Config) *machine {
	t.Helper()
	m := &machine{done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	m.cancel = cancel
	log := slog.New(slog.NewTextHandler(&m.log, nil))
	go func() {
		a, err := app.Build(ctx, cfg, log)
		if err == nil {
			err = a.Run(ctx)
		}
		m.done <- err
	}()
	conn, err := grpc.NewClient(cfg.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	m.conn = conn
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if t.Failed() {
			t.Logf("%s:\n%s", cfg.Cluster.Name, m.log.String())
		}
	})
	return m
}

// launchAll starts servers in the order of these names.
func launchAll(t *testing.T, configs map[string]config.Config, order ...string) map[string]*machine {
	t.Helper()
	running := map[string]*machine{}
	for _, name := range order {
		running[name] = launch(t, configs[name])
	}
	return running
}

// stop stops a server.
func (m *machine) stop(t *testing.T) {
	t.Helper()
	m.cancel()
	if err := <-m.done; err != nil {
		t.Errorf("stop: %v\n%s", err, m.log.String())
	}
}

// stopAll stops servers at the same time, as a cluster does on which the power fails.
func stopAll(t *testing.T, running map[string]*machine) {
	t.Helper()
	for _, m := range running {
		m.cancel()
	}
	for _, name := range slices.Sorted(maps.Keys(running)) {
		running[name].stop(t)
	}
}

// says waits until the log of a server contains a text.
func (m *machine) says(t *testing.T, text string) {
	t.Helper()
	poll.Until(t, "the log contains "+text, func() bool { return strings.Contains(m.log.String(), text) })
}

// put writes an object, and tries again while the cluster is formed or has no leader.
func (m *machine) put(t *testing.T, key, value string) (revision int64) {
	t.Helper()
	poll.Until(t, "a write succeeds", func() bool {
		ctx := poll.Context(t)
		resp, err := fanoutv1.NewStoreServiceClient(m.conn).Put(ctx, &fanoutv1.PutRequest{
			Resource: "config", Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: value}},
		})
		if err != nil {
			return false
		}
		revision = resp.GetRevision()
		return true
	})
	return revision
}

// get returns the value of an object, as new as any write before.
func (m *machine) get(t *testing.T, key string) string {
	t.Helper()
	resp, err := fanoutv1.NewFanoutServiceClient(m.conn).Get(poll.Context(t), &fanoutv1.GetRequest{Resource: "config", Key: key})
	if err != nil {
		t.Errorf("get %s: %v", key, err)
	}
	return resp.GetObject().GetText()
}

// refuses waits until a server ends with an error that contains each of the texts.
func (m *machine) refuses(t *testing.T, texts ...string) {
	t.Helper()
	err := <-m.done
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
}
