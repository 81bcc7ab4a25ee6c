package server_test

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/internal/validation"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// The resources of every instance, one for each codec.
const (
	config    = "config"    // codec object
	documents = "documents" // codec json
	blobs     = "blobs"     // codec raw
)

var codecOf = map[string]string{config: "object", documents: "json", blobs: "raw"}

// Limits of every instance. They are the defaults of the fanoutd command.
const (
	maxValueBytes = 1 << 20
	maxOperations = 128
	maxTTL        = 30 * 24 * time.Hour
)

// within returns a context for the requests and waits of a test.
func within(t testing.TB) context.Context {
	t.Helper()
	return poll.Context(t)
}

// openEtcd starts an etcd in this process and makes the test parallel, because most of
// its time is spent waiting for the etcd to elect itself.
func openEtcd(t *testing.T, quotaBytes int64) *store.Store {
	t.Helper()
	return openEtcdWith(t, store.EmbeddedConfig{QuotaBytes: quotaBytes})
}

// openEtcdToCompact starts an etcd and returns a function that compacts it. The etcd
// serves its own API for that purpose.
func openEtcdToCompact(t *testing.T) (etcd *store.Store, compact func(ctx context.Context, at int64)) {
	t.Helper()
	address := loopback.FreeAddress(t)
	etcd = openEtcdWith(t, store.EmbeddedConfig{ListenClient: address})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return etcd, func(ctx context.Context, at int64) {
		t.Helper()
		if _, err := client.Compact(ctx, at); err != nil {
			t.Fatal(err)
		}
	}
}

func openEtcdWith(t *testing.T, cfg store.EmbeddedConfig) *store.Store {
	t.Helper()
	t.Parallel()
	return openEtcdAlone(t, cfg)
}

// openEtcdAlone starts an etcd but does not make the test parallel. It is for tests that
// measure the whole process, such as its memory.
func openEtcdAlone(t testing.TB, cfg store.EmbeddedConfig) *store.Store {
	t.Helper()
	cfg.Dir, cfg.UnsafeNoFsync = t.TempDir(), true
	etcd, err := store.OpenEmbedded(within(t), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return etcd
}

// instance is a server over an etcd, assembled as in package app, and a connection to it.
type instance struct {
	address     string
	etcd        *store.Store
	conn        *grpc.ClientConn
	server      *server.Server
	reads       fanoutv1.FanoutServiceClient
	writes      fanoutv1.StoreServiceClient
	collections map[string]*store.Collection // the stores that the seams wrap
	seams       map[string]*seam
	dispatchers map[string]*dispatch.Dispatcher
	lines       *lines

	// stop stops everything except the etcd. Running requests may continue until ctx is
	// done. Further calls do nothing.
	stop func(ctx context.Context)
}

// settings configure an instance. Zero values select the defaults.
type settings struct {
	uncached     bool                              // resources without cachers
	readOnly     bool                              // no StoreService
	interfere    func(resource string, seam *seam) // called before anything runs
	configure    func(*server.Config)              // called before the server is created
	window       cacher.WindowLimits               // default: that of the cacher
	readWait     time.Duration                     // default: poll.Patience, so that a busy machine refuses no read
	encoder      feed.Encoder                      // default: wire.Encoder
	logBytes     int                               // default: that of the dispatcher
	messageBytes int                               // default: that of the dispatcher
	tombstones   int                               // deletions that the cacher remembers; default: that of the cacher
	timeLimit    time.Duration                     // of watches; default: none
	slow         time.Duration                     // from which requests are logged as slow; default: none are
	grace        time.Duration                     // after the time limit; default: that of the server
	codecs       map[string]string                 // by resource; default: codecOf
	schemas      map[string]object.Schema          // by resource; default: nothing declared
	keys         *crypt.Keyring                    // encrypt values; default: values are not encrypted
	plain        bool                              // new values are not encrypted although there are keys
	limits       quota.Limits                      // default: none
	audit        *audit.Log                        // default: none
	drainDelay   time.Duration                     // default: none
	drainPeriod  time.Duration                     // default: all at once
	prepare      func(*server.Server)              // called before the server serves
	policy       string                            // access rules; default: everything is allowed, without authentication
	validation   map[string]string                 // validation files, by resource; default: none
	history      bool                              // the resource config has a history
	historyTTL   bool                              // which has objects with a time to live, too
}

// start returns an instance over an etcd of its own.
func start(t *testing.T, with settings) *instance {
	t.Helper()
	return startOver(t, openEtcd(t, 0), with)
}

// startOver returns an instance over an etcd.
func startOver(t testing.TB, etcd *store.Store, with settings) *instance {
	t.Helper()
	in := &instance{
		etcd:        etcd,
		collections: map[string]*store.Collection{},
		seams:       map[string]*seam{},
		dispatchers: map[string]*dispatch.Dispatcher{},
		lines:       newLines(),
	}
	log := in.lines.logger()
	if with.encoder == nil {
		with.encoder = wire.Encoder{}
	}
	cfg := server.Config{
		Writes:         !with.readOnly,
		MaxValueBytes:  maxValueBytes,
		MaxOperations:  maxOperations,
		MaxTTL:         maxTTL,
		WatchTimeLimit: with.timeLimit, WatchGrace: with.grace, SlowRequest: with.slow,
		Limits: with.limits, Audit: with.audit, DrainDelay: with.drainDelay, DrainPeriod: with.drainPeriod,
		Log: log,
	}
	if with.policy != "" {
		cfg.Policy, cfg.Authenticator = readPolicy(t, with.policy), &access.Authenticator{JWTs: believer{}}
	}
	for name, codecName := range codecOf {
		schema := with.schemas[name]
		codec, err := object.NewCodec(cmp.Or(with.codecs[name], codecName), schema)
		if err != nil {
			t.Fatal(err)
		}
		keys := cmp.Or(with.keys, crypt.NewKeyring(log))
		values := keys.Values(with.keys != nil && !with.plain)
		collection := etcd.Collection(name, "/test/"+name+"/", values)
		var records *backend.History
		if with.history && name == config {
			records = historyOf(collection.KeepHistory(), with.historyTTL)
		}
		s := newSeam(collection)
		if with.interfere != nil {
			with.interfere(name, s)
		}
		if with.uncached {
			source := direct.New(direct.Config{
				Resource: name, Store: collection, Codec: codec, Preencode: wire.Preencode, Encoder: with.encoder, MessageBytes: with.messageBytes,
				ReadWait: cmp.Or(with.readWait, poll.Patience), Keys: keys, Log: log,
			})
			in.collections[name] = collection
			cfg.Resources = append(cfg.Resources, backend.Resource{Name: name, Fields: schema.Names(), Codec: codec, Direct: source, Store: s, Values: values, History: records})
			continue
		}
		c := cacher.New(cacher.Config{
			Resource: name, Store: s, Codec: codec, Preencode: wire.Preencode,
			Window: with.window, MaxTombstones: with.tombstones, ReadWait: cmp.Or(with.readWait, poll.Patience), Keys: keys, Log: log,
		})
		d := dispatch.New(feed.Config{Source: c, Encoder: with.encoder, LogBytes: with.logBytes, MessageBytes: with.messageBytes, Indexed: schema.Indexed()})
		in.collections[name], in.seams[name], in.dispatchers[name] = collection, s, d
		cfg.Resources = append(cfg.Resources, backend.Resource{
			Name: name, Fields: schema.Names(), Codec: codec, Cacher: c, Dispatcher: d, Store: s, Values: values,
			History: records,
		})
	}
	for i := range cfg.Resources {
		if text, ok := with.validation[cfg.Resources[i].Name]; ok {
			set, err := validation.Parse("rules", [][]byte{[]byte(text)})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Resources[i].Validation = validation.Fixed(set)
		}
	}
	if with.configure != nil {
		with.configure(&cfg)
	}
	in.server = server.New(cfg)
	if with.prepare != nil {
		with.prepare(in.server)
	}
	in.run(t, cfg)
	in.conn = dial(t, in.address)
	in.reads, in.writes = fanoutv1.NewFanoutServiceClient(in.conn), fanoutv1.NewStoreServiceClient(in.conn)
	return in
}

// run runs the parts of an instance until it is stopped.
func (in *instance) run(t testing.TB, cfg server.Config) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	in.address = listener.Addr().String()
	var dispatchers, cachers, serving sync.WaitGroup
	cacherCtx, stopCachers := context.WithCancel(context.WithValue(context.Background(), ofCacher{}, true))
	dispatchCtx, stopDispatchers := context.WithCancel(context.Background())
	for _, r := range cfg.Resources {
		if r.Direct != nil {
			cachers.Go(func() { r.Direct.Run(cacherCtx) })
			continue
		}
		cachers.Go(func() { r.Cacher.Run(cacherCtx) })
		dispatchers.Go(func() { r.Dispatcher.Run(dispatchCtx) })
	}
	serving.Go(func() {
		if err := in.server.Serve(listener); err != nil {
			t.Error(err)
		}
	})
	var once sync.Once
	in.stop = func(ctx context.Context) {
		once.Do(func() {
			in.server.Stop(ctx)
			serving.Wait()
			stopDispatchers()
			dispatchers.Wait()
			stopCachers()
			cachers.Wait()
		})
	}
	t.Cleanup(func() {
		// The test's context has ended by now, and with it the test's streams.
		ctx, cancel := context.WithTimeout(context.Background(), poll.Patience)
		defer cancel()
		in.stop(ctx)
	})
}

// dial returns a new connection to a server. It accepts 8 KiB of metadata, as little as
// the strictest clients do: those built on gRPC's C++ core and gRPC Java.
func dial(t testing.TB, address string, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(8 << 10),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // an error says that a test has closed it
	return conn
}

// put stores a text and returns the revision of the write.
func (in *instance) put(ctx context.Context, t *testing.T, resource, key, text string) int64 {
	t.Helper()
	resp, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: putText(key, text)})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRevision()
}

// delete removes a key and returns the revision of the deletion.
func (in *instance) delete(ctx context.Context, t *testing.T, resource, key string) int64 {
	t.Helper()
	resp, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	if !resp.GetDeleted() {
		t.Fatalf("cannot delete %q: it does not exist", key)
	}
	return resp.GetRevision()
}

func putText(key, text string) *fanoutv1.PutOperation {
	return &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}}
}

// revision returns the revision of the etcd. The seams do not count this call.
func (in *instance) revision(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	r, err := in.collections[config].Revision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return int64(r)
}

// epoch returns the epoch of the etcd.
func (in *instance) epoch(ctx context.Context, t *testing.T) string {
	t.Helper()
	e, err := in.collections[config].Epoch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return string(e)
}
