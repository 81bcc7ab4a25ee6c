package clients

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
)

// idleLimit is shorter than the intervals of bookmarks and of pings, so that each
// connection without requests is cut.
const idleLimit = 2 * time.Second

// idleClient is a client behind a proxy of its own, which cuts idle connections.
type idleClient struct {
	subscriber
	proxy *proxy
	// requests says that the client sends a request while its connection is cut. Otherwise it
	// has to notice the cut without one.
	requests bool
}

// TestProxiesCutIdleConnections checks that quiet watches get the next event, that a list
// gets an answer, and that clients without requests notice that their connection was cut.
// All clients have the default options.
func TestProxiesCutIdleConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	etcd := etcdproc.StartMember(t, "http")
	server := startServer(t, etcd.Address)
	direct := dial(t, []string{server.address}).Resource(cached)
	if _, err := direct.Put(t.Context(), "a", client.Text("1")); err != nil {
		t.Fatal(err)
	}
	var clients []idleClient
	for _, language := range append([]string{"go"}, languages(t)...) {
		for _, silently := range []bool{false, true} {
			how := "closed"
			if silently {
				how = "cut silently"
			}
			for _, with := range []string{withWatch, withLists} {
				clients = append(clients, newIdleClient(t, language, with, how, server.address, silently, true))
			}
			if silently {
				clients = append(clients, newIdleClient(t, language, withLists, how+" without requests", server.address, true, false))
			}
		}
	}

	ctx, cancel := context.WithCancel(poll.Context(t))
	running, ctx := errgroup.WithContext(ctx)
	for _, c := range clients {
		running.Go(func() error {
			if err := c.run(ctx); ctx.Err() == nil {
				return fmt.Errorf("%s: %w", c.name(), err)
			}
			return nil
		})
	}
	defer func() {
		cancel()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	}()
	forEach := func(check func(idleClient) error) {
		var all errgroup.Group
		for _, c := range clients {
			all.Go(func() error {
				if err := check(c); err != nil {
					return fmt.Errorf("%s: %w", c.name(), err)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
	}

	forEach(func(c idleClient) error {
		if err := await(ctx, func() bool { return c.at().Revision > 0 && c.pending() == "" }); err != nil {
			return fmt.Errorf("no copy: %w", err)
		}
		if err := await(ctx, func() bool { return c.proxy.cuts.Load() > 0 }); err != nil {
			return fmt.Errorf("the connection was not cut: %w", err)
		}
		return nil
	})
	revision, err := direct.Put(ctx, "a", client.Text("2"))
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]*client.Object{}
	if objects["a"], err = direct.Get(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	forEach(func(c idleClient) error {
		if !c.requests {
			if err := await(ctx, func() bool { return c.proxy.left.Load() > 0 }); err != nil {
				return fmt.Errorf("the client has not closed the connection: %w", err)
			}
		}
		if err := await(ctx, func() bool { return c.at().Revision >= revision }); err != nil {
			return fmt.Errorf("no event, or no answer: %w", err)
		}
		if diff := c.compare(objects); diff != "" {
			return errors.New(diff)
		}
		t.Logf("%s: after %v", c.name(), time.Since(began).Round(100*time.Millisecond))
		return nil
	})
}

func newIdleClient(t *testing.T, language, with, how, server string, silently, requests bool) idleClient {
	t.Helper()
	c := idleClient{proxy: newIdleProxy(t, server, idleLimit, silently), requests: requests}
	title := fmt.Sprintf("%s with %s, %s", language, with, how)
	servers := []string{c.proxy.address}
	switch {
	case language != "go":
		s := newProgramSubscriber(t, language, with, servers, client.DefaultBookmarkInterval)
		s.title = title
		c.subscriber = s
	case with == withWatch:
		s := newWatchSubscriber(title, dial(t, servers).Resource(cached), &counts{})
		s.bookmarks = client.DefaultBookmarkInterval
		c.subscriber = s
	default:
		c.subscriber = &listSubscriber{watchSubscriber: newWatchSubscriber(title, dial(t, servers).Resource(cached), &counts{})}
	}
	return c
}

// listSubscriber has no watch: it lists the objects on demand.
type listSubscriber struct{ *watchSubscriber }

func (s *listSubscriber) run(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *listSubscriber) at() client.Position {
	ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
	defer cancel()
	page, err := s.resource.ListPage(ctx)
	if err != nil {
		return client.Position{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.copy)
	for _, o := range page.Objects {
		s.copy[o.Key] = o.ModRevision
	}
	return page.Position
}
