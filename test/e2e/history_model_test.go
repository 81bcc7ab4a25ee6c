package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/seed"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// killsVariable sets how often the test of histories kills a server.
const killsVariable = "FANOUTD_KILLS"

// countsUp has a rule that only holds for a put that has seen the object which it replaces.
const countsUp = `checks: [{rules: [{rule: "self.n == (oldSelf == null ? 0 : oldSelf.n) + 1", message: count up}]}]`

// leased is a second resource, which records objects with a time to live.
const (
	leased       = "leased"
	leasedPrefix = "/fanoutd/leased/"
)

// TestEveryWriteHasOneRecord has three servers, one of them without a cache, that write the same few keys, and
// are killed at any moment. Meanwhile another program writes to etcd, objects expire, and servers with different
// primary keys encrypt each other's objects again. Then etcd's whole history must show that
//   - every applied write has exactly one record, acknowledged or not, and no record is without its write;
//   - rules have seen the object that was replaced, and no other;
//
// and each server must show exactly these writes, with gaps exactly where the other program wrote.
func TestEveryWriteHasOneRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	kills := 4
	if given := os.Getenv(killsVariable); given != "" {
		var err error
		if kills, err = strconv.Atoi(given); err != nil {
			t.Fatalf("%s: %v", killsVariable, err)
		}
	}
	random := seed.New(t)
	etcdAddress := startEtcd(t)
	etcd := dialEtcd(t, etcdAddress)
	ring, keysets := twoKeysets(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, rules, countsUp)
	var servers []*server
	for i := range 3 {
		cache := "on"
		if i == 2 {
			cache = "off"
		}
		config := fmt.Sprintf(`
keyset-file: %[1]s
resources:
  - {name: config, cache: %[2]s, validation-file: %[3]s, history: {versions: 10000}}
  - {name: leased, cache: %[2]s, validation-file: %[3]s, history: {versions: 10000, ttl: true}}`, keysets[i%2], cache, rules)
		servers = append(servers, startServer(t, append(configured(t, config), "--etcd-endpoints", "http://"+etcdAddress)...))
	}

	done := &applied{ids: map[int64]string{}, keys: map[int64][]string{}}
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	writing, stop := context.WithCancel(ctx)
	defer stop()
	group, groupCtx := errgroup.WithContext(ctx)
	context.AfterFunc(groupCtx, stop)
	pace := newPace(t, 200)
	for i, s := range servers {
		for w := range 6 {
			c := &counter{
				name: fmt.Sprintf("w%d-%d", i, w), reads: fanoutv1.NewFanoutServiceClient(s.conn), store: fanoutv1.NewStoreServiceClient(s.conn),
				rng: random.Rand(uint64(10*i + w)), pace: pace, applied: done,
			}
			group.Go(func() error { return c.run(groupCtx, writing) })
		}
	}
	other := &foreigner{client: etcd, rng: random.Rand(100), pace: newPace(t, 15)}
	group.Go(func() error { return other.run(groupCtx, writing) })
	group.Go(func() error { return reencryptor(groupCtx, writing, servers, random.Rand(101), newPace(t, 2)) })

	rng := random.Rand(102)
	for range kills {
		goal := done.count() + 20 + rng.IntN(60)
		if !poll.Wait(groupCtx, func() bool { return done.count() >= goal }) {
			break
		}
		s := pick(rng, servers)
		s.end(t, syscall.SIGKILL)
		s.start(t)
	}
	goal := done.count() + 100
	poll.Wait(groupCtx, func() bool { return done.count() >= goal })
	stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	// Nothing changes any more once the objects with a time to live are gone.
	poll.Until(t, "the objects with a time to live have expired", func() bool {
		resp, err := etcd.Get(ctx, "/fanoutd/", clientv3.WithPrefix()) // without values, etcd does not return leases
		return err == nil && !slices.ContainsFunc(resp.Kvs, func(kv *mvccpb.KeyValue) bool { return kv.Lease != 0 })
	})

	values := ring.Values(true)
	plain := newOracle(etcdPrefix, false, values)
	withTTL := newOracle(leasedPrefix, true, values)
	readOracles(t, etcd, plain, withTTL)
	for name, o := range map[string]*oracle{resource: plain, leased: withTTL} {
		for _, err := range o.wrong[:min(len(o.wrong), 5)] {
			t.Errorf("%s: %v", name, err)
		}
		done.check(t, name, o)
		for i, s := range servers {
			showsHistory(ctx, t, s, name, o, done, i)
		}
		records := 0
		for _, n := range o.records {
			records += n
		}
		t.Logf("%s: %d keys, %d puts, %d records", name, len(o.keys), o.puts, records)
		if records < 20 {
			t.Error("the test is too easy: there were hardly any records")
		}
	}
	t.Logf("%d acknowledged writes, %d unanswered, %d refused by the rule, %d overtaken, %d of the other program; %d kills",
		done.count(), done.unanswered, done.refused, done.overtaken, other.writes, kills)
}

func newOracle(prefix string, ttl bool, values *crypt.Values) *oracle {
	return &oracle{prefix: prefix, ttl: ttl, values: values, keys: map[object.Key]*keyHistory{}, records: map[int64]int{}}
}

// twoKeysets returns files with the same two keys, and different primary ones. The keyring has both keys.
func twoKeysets(t *testing.T) (*crypt.Keyring, []string) {
	t.Helper()
	one, _, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	one, added, err := crypt.Add(one)
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := crypt.Promote(one, added)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, content := range [][]byte{one, two} {
		paths = append(paths, filepath.Join(t.TempDir(), "keys.json"))
		writeFile(t, paths[len(paths)-1], string(content))
	}
	ring := crypt.NewKeyring(slog.New(slog.DiscardHandler))
	if err := ring.Use(one); err != nil {
		t.Fatal(err)
	}
	return ring, paths
}

// applied has the acknowledged writes.
type applied struct {
	mu                             sync.Mutex
	ids                            map[int64]string   // by revision
	keys                           map[int64][]string // resource and key, by revision
	unanswered, refused, overtaken int
}

func (a *applied) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids)
}

func (a *applied) add(revision int64, id string, keys []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ids[revision], a.keys[revision] = id, keys
}

// failed takes note of a write that was not acknowledged. It returns an error that nothing in the test explains.
func (a *applied) failed(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case status.Code(err) == codes.Unavailable:
		a.unanswered++
	case reasonOf(err) == "VALUE_REFUSED", reasonOf(err) == "OPAQUE_VALUE":
		a.refused++
	case status.Code(err) == codes.FailedPrecondition, status.Code(err) == codes.Aborted:
		a.overtaken++
	default:
		return err
	}
	return nil
}

// check checks that the acknowledged writes are recorded.
func (a *applied) check(t *testing.T, resource string, o *oracle) {
	t.Helper()
	for revision, keys := range a.keys {
		n := 0
		for _, key := range keys {
			if filepath.Dir(key) == resource {
				n++
			}
		}
		if o.ttl && n > 0 && o.records[revision] != n {
			t.Errorf("%s: the write of %v at revision %d has %d records", resource, keys, revision, o.records[revision])
		}
	}
}

// counter writes through a server. Most of its values follow the rule.
type counter struct {
	name    string
	reads   fanoutv1.FanoutServiceClient
	store   fanoutv1.StoreServiceClient
	rng     *rand.Rand
	pace    *pace
	applied *applied
	writes  int
}

func (c *counter) run(ctx, until context.Context) error {
	for c.pace.next(until) {
		c.writes++
		if err := c.write(ctx); err != nil && until.Err() == nil {
			if err := c.applied.failed(err); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	return nil
}

func modelKey(rng *rand.Rand) string { return fmt.Sprintf("k%d", rng.IntN(5)) }

func (c *counter) write(ctx context.Context) error {
	in, id := pick(c.rng, []string{resource, leased}), fmt.Sprintf("%s-%d", c.name, c.writes)
	key := modelKey(c.rng)
	switch c.rng.IntN(10) {
	case 0, 1: // the key often does not exist
		resp, err := c.store.Delete(ctx, &fanoutv1.DeleteRequest{Resource: in, Delete: &fanoutv1.DeleteOperation{Key: key}, Message: id})
		if err == nil && resp.GetDeleted() {
			c.applied.add(resp.GetRevision(), id, []string{in + "/" + key})
		}
		return err
	case 2, 3, 4:
		req := &fanoutv1.TransactRequest{Resource: in, Message: id}
		for _, i := range c.rng.Perm(5)[:2+c.rng.IntN(2)] {
			key := fmt.Sprintf("k%d", i)
			if c.rng.IntN(4) == 0 {
				req.Operations = append(req.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: key}}})
				continue
			}
			put, err := c.put(ctx, in, key, id)
			if err != nil {
				return err
			}
			req.Operations = append(req.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: put}})
		}
		resp, err := c.store.Transact(ctx, req)
		if err != nil {
			return err
		}
		var keys []string
		for i, op := range req.GetOperations() {
			if op.GetPut() != nil {
				keys = append(keys, in+"/"+op.GetPut().GetKey())
			} else if resp.GetResults()[i].GetDeleted() {
				keys = append(keys, in+"/"+op.GetDelete().GetKey())
			}
		}
		if len(keys) > 0 {
			c.applied.add(resp.GetRevision(), id, keys)
		}
		return nil
	}
	put, err := c.put(ctx, in, key, id)
	if err != nil {
		return err
	}
	resp, err := c.store.Put(ctx, &fanoutv1.PutRequest{Resource: in, Put: put, Message: id})
	if err == nil {
		c.applied.add(resp.GetRevision(), id, []string{in + "/" + key})
	}
	return err
}

// put returns a put that counts up, as far as the caller knows.
func (c *counter) put(ctx context.Context, in, key, id string) (*fanoutv1.PutOperation, error) {
	value := numbered{N: 1, ID: id}
	resp, err := c.reads.Get(ctx, &fanoutv1.GetRequest{Resource: in, Key: key})
	switch {
	case reasonOf(err) == "KEY_NOT_FOUND":
	case err != nil:
		return nil, err
	default:
		var present numbered
		_ = json.Unmarshal([]byte(resp.GetObject().GetText()), &present) // another program's value
		value.N = present.N + 1
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	put := &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: string(text)}, ContentType: contentJSON}
	switch c.rng.IntN(6) {
	case 0, 1:
		put.Ttl = durationpb.New(time.Second)
	case 2:
		put.KeepTtl = true
	}
	return put, nil
}

// foreigner writes to etcd directly, like a program that does not know fanoutd.
type foreigner struct {
	client *clientv3.Client
	rng    *rand.Rand
	pace   *pace
	writes int
}

func (f *foreigner) run(ctx, until context.Context) error {
	for f.pace.next(until) {
		f.writes++
		key := pick(f.rng, []string{etcdPrefix, leasedPrefix}) + modelKey(f.rng)
		op := clientv3.OpDelete(key)
		if f.rng.IntN(3) > 0 {
			value, err := f.value()
			if err != nil {
				return err
			}
			op = clientv3.OpPut(key, value)
		}
		if _, err := f.client.Txn(ctx).Then(clientv3.OpPut(foreignMark, ""), op).Commit(); err != nil {
			return fmt.Errorf("other program: %w", err)
		}
	}
	return nil
}

func (f *foreigner) value() (string, error) {
	if f.rng.IntN(6) == 0 {
		return fmt.Sprintf("not an envelope %d", f.writes), nil
	}
	text, err := json.Marshal(numbered{N: 1000 * f.writes, ID: fmt.Sprintf("foreign-%d", f.writes)})
	if err != nil {
		return "", err
	}
	sealed, err := encodeEnvelope(contentJSON, nil, text)
	return string(sealed), err
}

// reencryptor lets servers encrypt everything again that is not encrypted with their primary key.
func reencryptor(ctx, until context.Context, servers []*server, rng *rand.Rand, pace *pace) error {
	for pace.next(until) {
		admin := fanoutv1.NewAdminServiceClient(pick(rng, servers).conn)
		for _, in := range []string{resource, leased} {
			req := &fanoutv1.ReencryptRequest{Resource: in}
			for {
				resp, err := admin.Reencrypt(ctx, req)
				if err != nil && status.Code(err) != codes.Unavailable {
					return fmt.Errorf("encrypt again: %w", err)
				}
				if req.PageToken = resp.GetNextPageToken(); err != nil || req.GetPageToken() == "" || until.Err() != nil {
					break
				}
			}
		}
	}
	return nil
}

// showsHistory checks that a server shows the histories of all keys as the oracle does.
func showsHistory(ctx context.Context, t *testing.T, s *server, in string, o *oracle, done *applied, number int) {
	t.Helper()
	client := fanoutv1.NewFanoutServiceClient(s.conn)
	total := 0
	for _, key := range o.sorted() {
		got := historyOf(ctx, t, client, &fanoutv1.HistoryRequest{Resource: in, Scope: keyScope(string(key)), PageSize: 7, Values: true}, done)
		total += len(got)
		if diff := cmp.Diff(o.entries(key), got); diff != "" {
			t.Errorf("%s of server %d, %s (-want +got):\n%s", in, number, key, diff)
		}
	}
	if all := historyOf(ctx, t, client, &fanoutv1.HistoryRequest{Resource: in, PageSize: 13, Values: true}, done); len(all) != total {
		t.Errorf("%s of server %d has %d entries, and its keys have %d", in, number, len(all), total)
	}
}

// historyOf reads a history, and compares its messages with the values and the acknowledged writes.
func historyOf(ctx context.Context, t *testing.T, client fanoutv1.FanoutServiceClient, req *fanoutv1.HistoryRequest, done *applied) (shown []string) {
	t.Helper()
	for {
		resp, err := client.History(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEntries() {
			shown = append(shown, shownEntry(e))
			if e.GetTime() == nil {
				continue
			}
			var value numbered
			if text := e.GetObject().GetText(); text != "" {
				if err := json.Unmarshal([]byte(text), &value); err != nil || value.ID != e.GetMessage() {
					t.Errorf("got the message %q for the value %s", e.GetMessage(), text)
				}
			}
			if id, ok := done.ids[e.GetRevision()]; ok && id != e.GetMessage() {
				t.Errorf("got the message %q for the write %q", e.GetMessage(), id)
			}
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			return shown
		}
	}
}
