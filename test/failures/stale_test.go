package failures

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
)

// runInformer runs an informer of the resource until stop is called or the test ends.
func runInformer(t *testing.T, r *client.Resource, opts ...client.InformerOption) (inf *client.Informer[*client.Object], stop func()) {
	t.Helper()
	inf = client.NewInformer(r, client.ObjectDecoder(), append(opts, client.BookmarkInterval(time.Second))...)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := inf.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the informer ended with %v", err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return inf, stop
}

// Two servers are cut off from etcd while an informer watches one of them. The informer becomes
// stale once, and stays so until etcd is back, although both servers resume its watch. An
// informer that begins with a saved state is stale from the beginning, and not in sync.
func TestInformersAreStaleWhileEtcdIsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	m := etcdproc.StartMember(t, "http")
	one, other := startFanoutd(t, over(m.Address)...), startFanoutd(t, over(m.Address)...)
	c, err := client.New(one.address + "," + other.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := c.Resource(resource)
	written, err := r.Put(contextFor(t), "k", client.Text("1"))
	if err != nil {
		t.Fatal(err)
	}
	good := client.LastKnownGood(filepath.Join(t.TempDir(), "good"), 1<<20)
	first, stop := runInformer(t, r, good)
	watching, _ := runInformer(t, r)
	for _, inf := range []*client.Informer[*client.Object]{first, watching} {
		if err := inf.WaitForSync(contextFor(t)); err != nil {
			t.Fatal(err)
		}
	}
	stop() // saves the state

	m.Signal(t, syscall.SIGSTOP)
	lost := time.Now()
	// What the servers know now must be older than the informers that begin.
	poll.Until(t, "etcd is away for two seconds", func() bool { return time.Since(lost) > 2*time.Second })
	resumed, _ := runInformer(t, r, good)
	later, _ := runInformer(t, r, good, client.MinRevision(written+1))
	// The informers are watched for this time while etcd is away.
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	for _, inf := range []*client.Informer[*client.Object]{resumed, later} {
		if err := inf.WaitForState(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stale := false
	poll.Wait(ctx, func() bool {
		switch now := watching.Lister().Stale(); {
		case stale && !now:
			t.Errorf("the informer is not stale any more %v after etcd was lost", time.Since(lost))
		case !stale && !now && time.Since(lost) > 15*time.Second:
			t.Errorf("the informer is not stale %v after etcd was lost, want at most 10s", time.Since(lost))
		default:
			stale = stale || now
		}
		if !resumed.Lister().Stale() || !later.Lister().Stale() {
			t.Errorf("an informer that began with its file is not stale %v after etcd was lost", time.Since(lost))
		}
		return t.Failed()
	})
	for _, inf := range []*client.Informer[*client.Object]{resumed, later} {
		if err := inf.WaitForSync(ctx); err == nil {
			t.Error("an informer that began with its file is in sync while etcd is away")
		}
	}

	m.Signal(t, syscall.SIGCONT)
	if _, err := r.Put(contextFor(t), "k", client.Text("2")); err != nil {
		t.Fatal(err)
	}
	for _, inf := range []*client.Informer[*client.Object]{resumed, later} {
		if err := inf.WaitForSync(contextFor(t)); err != nil {
			t.Error(err)
		}
	}
	poll.Until(t, "no informer is stale", func() bool {
		return !watching.Lister().Stale() && !resumed.Lister().Stale() && !later.Lister().Stale()
	})
}
