package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Limits of the tests in this file. On an idle machine, reads are answered by another member
// after a second, writes fail after at most 5 s, and watches continue after about 2 s. The
// limits leave a busy machine more time. Without failover, requests wait for 8 to 15 s.
const (
	maxReadWait  = 4 * time.Second
	maxWriteWait = 7 * time.Second
	maxWatchWait = 7 * time.Second

	// maxLeaderWait is the time limit of a write. It applies while etcd has no leader.
	maxLeaderWait = 9 * time.Second
)

// linkedCluster is an etcd of three members, and a store that reaches each of them through
// a link.
type linkedCluster struct {
	members []*etcdproc.Member
	client  *clientv3.Client // bypasses the links
	links   []*loopback.Link
	*store.Collection
}

func startLinkedCluster(t *testing.T) *linkedCluster {
	t.Helper()
	c := &linkedCluster{members: etcdproc.StartCluster(t, 3)}
	var direct []string
	var cfg store.ExternalConfig
	for _, m := range c.members {
		link := loopback.NewLink(t, m.Address)
		c.links = append(c.links, link)
		cfg.Endpoints = append(cfg.Endpoints, link.Address)
		direct = append(direct, m.Address)
	}
	c.client = etcdClient(t, direct...)
	c.Collection = dialStore(t, cfg)
	epochOf(t, c.Collection)
	for i := range many { // connects to all members
		commit(t, c.Collection, put("k", fmt.Sprint(i)))
	}
	return c
}

// many is a number of requests in which each of three members has its turn.
const many = 30

// within runs a call and fails the test if it takes longer than the limit.
func within(t *testing.T, limit time.Duration, what string, call func(context.Context) error) error {
	t.Helper()
	begun := time.Now()
	err := call(contextFor(t))
	if took := time.Since(begun); took > limit {
		t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
	return err
}

// While the link to any one member is frozen, reads are answered by another member.
func TestReadsWhileALinkIsFrozen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	c := startLinkedCluster(t)
	for i, link := range c.links {
		link.Freeze()
		var reading sync.WaitGroup
		for range many {
			reading.Go(func() {
				err := within(t, maxReadWait, "Revision", func(ctx context.Context) error { _, err := c.Revision(ctx); return err })
				if err != nil {
					t.Errorf("without member %d: %v", i, err)
				}
			})
			reading.Go(func() {
				err := within(t, maxReadWait, "List", func(ctx context.Context) error { _, _, err := c.List(ctx, 0, object.Scope{}, "", 10); return err })
				if err != nil {
					t.Errorf("without member %d: %v", i, err)
				}
			})
		}
		reading.Wait()
		link.Thaw()
	}
}

// While the link to one member is frozen, a write that was sent to it fails within the
// documented time. Later writes go to other members.
func TestWritesWhileALinkIsFrozen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	c := startLinkedCluster(t)
	c.links[0].Freeze()
	var writing sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	for w := range 10 {
		writing.Go(func() {
			for i := range many {
				err := within(t, maxWriteWait, "Commit", func(ctx context.Context) error {
					_, err := c.Commit(ctx, []object.Op{put(fmt.Sprintf("w%d", w), fmt.Sprint(i))})
					return err
				})
				if err == nil {
					continue
				}
				if !errors.Is(err, object.ErrUnavailable) {
					t.Errorf("got %v, want %v", err, object.ErrUnavailable)
				}
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	// Each writer finds out at most once.
	if failed > 10 {
		t.Errorf("%d of %d writes failed, want at most one of each writer", failed, 10*many)
	}
	t.Logf("%d of %d writes failed", failed, 10*many)
}

// A watch continues at another member while the link to its member is frozen, without a gap.
func TestWatchesWhileALinkIsFrozen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	c := startLinkedCluster(t)
	s := watch(t, c.Collection, 1)
	var at object.Revision
	wrote := func(key string) {
		t.Helper()
		resp, err := c.client.Put(contextFor(t), prefix+key, "v")
		if err != nil {
			t.Fatal(err)
		}
		at = object.Revision(resp.Header.GetRevision())
	}
	reach := func() {
		t.Helper()
		err := within(t, maxWatchWait, "the next event", func(ctx context.Context) error {
			for {
				u, err := s.Next(ctx)
				if err != nil || u.Through >= at {
					return err
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		for i, link := range c.links {
			wrote("before")
			reach()
			link.Freeze()
			for n := range 3 {
				wrote(fmt.Sprintf("%d/%d/%d", round, i, n))
			}
			reach()
			link.Thaw()
		}
	}
}

// Writes during a loss of the leader are answered within the time limit of a write. They
// succeed again while the old leader is still away.
func TestWritesWhileTheLeaderIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, lose := range map[string]func(*etcdproc.Member){
		"killed": func(m *etcdproc.Member) { m.Kill(t) },
		"paused": func(m *etcdproc.Member) { m.Signal(t, syscall.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			c := startLinkedCluster(t)
			lose(c.leader(t))
			answered, succeeded := 0, 0
			poll.Until(t, "writes succeed again", func() bool {
				err := within(t, maxLeaderWait, "Commit", func(ctx context.Context) error {
					_, err := c.Commit(ctx, []object.Op{put("k", "v")})
					return err
				})
				answered++
				if err == nil {
					succeeded++
				} else {
					succeeded = 0
					if !errors.Is(err, object.ErrUnavailable) {
						t.Errorf("got %v, want %v", err, object.ErrUnavailable)
					}
				}
				return succeeded == many
			})
			t.Logf("%d writes were answered until %d in a row succeeded", answered, many)
		})
	}
}

func (c *linkedCluster) leader(t *testing.T) *etcdproc.Member {
	t.Helper()
	ctx := contextFor(t)
	for ctx.Err() == nil {
		for _, m := range c.members {
			if s, err := c.client.Status(ctx, m.Address); err == nil && s.Leader == s.Header.GetMemberId() {
				return m
			}
		}
	}
	t.Fatal("etcd has no leader")
	return nil
}
