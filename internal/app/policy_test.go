package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/test/poll"
)

const (
	aliceMay = "rules:\n- {subjects: [alice], verbs: [\"*\"], resources: [\"*\"]}\n"
	bobMay   = aliceMay + "- {groups: [staff], verbs: [watch], resources: [config], prefixes: [team]}\n"
)

// tokens writes the token file, and returns request contexts with credentials by name.
func tokens(ctx context.Context, t *testing.T, path string) map[string]context.Context {
	t.Helper()
	as, lines := map[string]context.Context{}, ""
	for name, groups := range map[string][]string{"alice": nil, "bob": {"staff"}} {
		token, line, err := access.NewToken(name, groups)
		if err != nil {
			t.Fatal(err)
		}
		as[name] = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		lines += line + "\n"
	}
	write(t, path, lines)
	return as
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// counter watches a key that gets the numbers from 1. It expects each number once
// and in order, and resumes whenever the policy has ended its watch.
type counter struct {
	ctx     context.Context
	reads   fanoutv1.FanoutServiceClient
	next    int // the next expected number
	at      *fanoutv1.Position
	watches atomic.Int64 // number of started watches
	denials atomic.Int64
	last    atomic.Int64 // the last number; 0: not known yet
	failed  chan error   // receives an unexpected error
}

func (c *counter) read() {
	var err error
	for err == nil {
		req := &fanoutv1.WatchRequest{Resource: "config", Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "team"}}}
		if c.at != nil {
			req.Begin = &fanoutv1.WatchRequest_After{After: c.at}
		}
		if err = c.watch(req); status.Code(err) == codes.PermissionDenied {
			err = nil
			c.denials.Add(1)
		}
	}
	if !errors.Is(err, errDone) {
		c.failed <- err
	}
}

var errDone = errors.New("all numbers have arrived")

func (c *counter) watch(req *fanoutv1.WatchRequest) error {
	stream, err := c.reads.Watch(c.ctx, req)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if first {
			c.watches.Add(1)
		}
		c.at = m.GetPosition()
		for _, e := range m.GetEvents() {
			if got := e.GetObject().GetText(); got != strconv.Itoa(c.next) {
				return fmt.Errorf("got number %s, want %d", got, c.next)
			}
			c.next++
		}
		if last := int(c.last.Load()); last > 0 && c.next > last {
			return errDone
		}
	}
}

// The policy file is replaced repeatedly. A watch that stays allowed is not disturbed. A watch
// that loses its right is ended each time, and misses nothing when it is allowed again.
func TestPolicyReloadEndsOnlyDeniedWatches(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const rounds = 3
	cfg := testConfig(t)
	cfg.Resources[0].Window.MaxEvents = 1_000_000 // no watch falls behind
	dir := t.TempDir()
	cfg.TokenFile, cfg.PolicyFile = filepath.Join(dir, "tokens"), filepath.Join(dir, "policy.yaml")
	ctx := poll.Context(t)
	as := tokens(ctx, t, cfg.TokenFile)
	write(t, cfg.PolicyFile, bobMay)
	conn, stop := start(t, cfg)
	defer stop()

	number := 0
	put := func() {
		number++
		_, err := fanoutv1.NewStoreServiceClient(conn).Put(as["alice"], &fanoutv1.PutRequest{Resource: "config", Put: &fanoutv1.PutOperation{
			Key: "team/n", Value: &fanoutv1.PutOperation_Text{Text: strconv.Itoa(number)},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	failed := make(chan error, 2)
	var reading sync.WaitGroup
	watching := func(name string) *counter {
		c := &counter{
			ctx: as[name], reads: fanoutv1.NewFanoutServiceClient(conn), next: 1,
			failed: failed,
		}
		reading.Go(c.read)
		poll.Until(t, "the first watch begins", func() bool { return c.watches.Load() > 0 || len(failed) > 0 })
		return c
	}
	a, b := watching("alice"), watching("bob")
	putUntil := func(more *atomic.Int64, than int64) {
		for more.Load() <= than {
			if len(failed) > 0 {
				t.Fatal(<-failed)
			}
			put()
		}
	}
	for range rounds {
		denials, watches := b.denials.Load(), b.watches.Load()
		write(t, cfg.PolicyFile, aliceMay)
		putUntil(&b.denials, denials)
		write(t, cfg.PolicyFile, "rules: [no rules") // an invalid file changes nothing
		write(t, cfg.PolicyFile, bobMay)
		putUntil(&b.watches, watches)
	}
	a.last.Store(int64(number))
	b.last.Store(int64(number))
	put() // wakes waiting watches
	reading.Wait()
	if len(failed) > 0 {
		t.Fatal(<-failed)
	}
	if a.watches.Load() != 1 || a.denials.Load() != 0 {
		t.Errorf("alice: got %d watches and %d denials, want 1 and 0", a.watches.Load(), a.denials.Load())
	}
	if b.watches.Load() != 1+rounds {
		t.Errorf("bob: got %d watches, want %d", b.watches.Load(), 1+rounds)
	}
}

// An invalid policy fails the start; it does not allow everything.
func TestInvalidPolicyIsRefused(t *testing.T) {
	cfg := testConfig(t)
	cfg.PolicyFile = filepath.Join(t.TempDir(), "policy.yaml")
	for _, bad := range []string{"", "rules: [{}]"} {
		write(t, cfg.PolicyFile, bad)
		if _, err := app.Build(t.Context(), cfg, testLog(t)); err == nil {
			t.Errorf("policy %q was accepted", bad)
		}
	}
}
