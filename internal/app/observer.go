package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/cluster"
	"github.com/fanoutd/fanoutd/internal/cluster/certs"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
)

// observer looks at the cluster of this server: it keeps the state that metrics show, and logs what it finds
// wrong. Its methods run one after another, except for state.
type observer struct {
	look *cluster.Observer
	log  *slog.Logger
	seen atomic.Pointer[sight]

	otherCluster string    // that is logged
	differing    int       // how often in a row the lists have differed
	warned       time.Time // when it was last logged that the certificate expires soon
}

// sight is what an observer has seen.
type sight struct {
	cluster manage.Cluster
	differs bool // the configured list differs from that of etcd
}

const (
	// observeInterval is the time between two looks at the members.
	observeInterval = 10 * time.Second

	// The pauses between two questions to the listed servers, while writes are refused. They double.
	firstLook = time.Second
	lastLook  = time.Minute

	// A certificate that expires within this many days is warned of, once a day.
	expiresSoon   = 30
	warnOfExpiry  = 24 * time.Hour
	logDifference = 2 // looks in a row; one alone may be a change that is under way
)

// state returns what the observer has last seen.
func (o *observer) state() (c manage.Cluster, differs, ok bool) {
	s := o.seen.Load()
	if s == nil {
		return c, false, false
	}
	return s.cluster, s.differs, true
}

// observed is what an observer needs of the store.
type observed interface {
	Cluster(ctx context.Context) (manage.Cluster, error)
	Formed() bool
}

// run observes until ctx is done.
func (o *observer) run(ctx context.Context, st observed) {
	members := time.NewTicker(observeInterval)
	defer members.Stop()
	pause := firstLook
	others := time.NewTimer(pause)
	defer others.Stop()
	o.observe(ctx, st)
	for {
		select {
		case <-ctx.Done():
			return
		case <-members.C:
			o.observe(ctx, st)
		case <-others.C:
			if !st.Formed() {
				o.see(ctx)
				pause = min(2*pause, lastLook)
				others.Reset(pause)
			}
		}
	}
}

// observe looks at the members.
func (o *observer) observe(ctx context.Context, st observed) {
	c, err := st.Cluster(ctx)
	if err != nil {
		return // the store is closed, or ctx is done
	}
	var urls []string
	for _, m := range c.Members {
		urls = append(urls, m.PeerURLs...)
	}
	listed, more := o.look.Differences(urls)
	differs := len(listed)+len(more) > 0
	o.seen.Store(&sight{c, differs})
	if !differs {
		o.differing = 0
	} else if o.differing++; o.differing == logDifference {
		o.log.Warn("cluster.members differs from the members of etcd, which are those that count",
			"only_in_cluster_members", listed, "only_in_etcd", more)
	}
	if own := c.Own().Report; own != nil && !own.CertificateExpires.IsZero() {
		o.checkExpiry(own.CertificateExpires)
	}
}

// checkExpiry logs the end of the own certificate at the start, and once a day if it is near.
func (o *observer) checkExpiry(end time.Time) {
	now := time.Now()
	days := certs.DaysUntil(end, now)
	switch {
	case days < expiresSoon && now.Sub(o.warned) >= warnOfExpiry:
		o.log.Warn("the certificate of this member of the cluster expires soon: run fanoutd cluster certs renew", "expires", end, "days", days)
	case o.warned.IsZero():
		o.log.Info("certificate of this member of the cluster", "expires", end, "days", days)
	default:
		return
	}
	o.warned = now
}

// showAwaited calls set with the servers for which etcd waits until stop is called.
func (o *observer) showAwaited(ctx context.Context, set func(cluster.Awaited)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(firstLook)
		defer ticker.Stop()
		for {
			if view, ok := o.see(ctx); ok {
				set(view.Awaited)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// see asks the listed servers once. It returns false if ctx is done. Two servers that found a cluster at the same
// moment both start: neither has a majority, and without this, neither says why.
func (o *observer) see(ctx context.Context) (cluster.View, bool) {
	view := o.look.Look(ctx)
	if ctx.Err() != nil {
		return cluster.View{}, false
	}
	if view.Foreign != "" && view.Foreign != o.otherCluster {
		o.log.Error("there is another cluster, so this one may never get a majority: stop the server whose data is not needed, and empty its data directory",
			"other", view.Foreign)
	}
	o.otherCluster = view.Foreign
	return view, true
}
