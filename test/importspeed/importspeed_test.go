package importspeed

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/program"
)

// variable sets the number of objects. Without it the test writes a few, and its times mean
// nothing.
const variable = "FANOUTD_IMPORT_OBJECTS"

// rounds is the number of measurements. The test reports the median.
const rounds = 3

var fanoutctl = program.Program{Folder: "cmd/fanoutctl"}

func TestMain(m *testing.M) {
	code := m.Run()
	fanoutctl.Clean()
	etcdproc.Clean()
	os.Exit(code)
}

// object is a key and a JSON document of about 250 bytes.
type object struct{ key, value string }

func objects(n int) []object {
	all := make([]object, n)
	for i := range all {
		all[i] = object{fmt.Sprintf("service-%03d/setting-%06d", i%500, i), fmt.Sprintf(`{"n":%d,"text":"%s"}`, i, strings.Repeat("x", 230))}
	}
	return all
}

// TestImportSpeed writes the same objects to one etcd in three ways, each time with new keys:
// by fanoutctl through a fanoutd, by etcd's client with one Put each, and by etcd's client
// with transactions of 128.
func TestImportSpeed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	n := 2000
	if given := os.Getenv(variable); given != "" {
		var err error
		if n, err = strconv.Atoi(given); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	all := objects(n)
	etcd := etcdproc.Start(t, "http", "--quota-backend-bytes", "8589934592")
	address := serve(t, etcd)
	fanoutctl := fanoutctl.Path(t)
	file := documents(t, all)
	direct, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: poll.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()

	ways := []struct {
		name  string
		write func(round int) error
	}{
		{"fanoutctl import", func(round int) error {
			out, err := exec.Command(fanoutctl, "import", resource(round), file, "--server", address).CombinedOutput()
			if want := fmt.Sprintf("%d written, 0 deleted, 0 unchanged.\n", n); err == nil && string(out) != want {
				err = fmt.Errorf("%q", out)
			}
			return err
		}},
		{"etcd client, 64 puts at a time", func(round int) error { return puts(t.Context(), direct, fmt.Sprintf("/puts-%d/", round), all) }},
		{"etcd client, 8 transactions of 128 at a time", func(round int) error {
			return transactions(t.Context(), direct, fmt.Sprintf("/transactions-%d/", round), all)
		}},
	}
	took := make([][]time.Duration, len(ways))
	for round := range rounds {
		for i := range ways {
			way := (i + round) % len(ways) // each way is first at some time
			start := time.Now()
			if err := ways[way].write(round); err != nil {
				t.Fatalf("%s: %v", ways[way].name, err)
			}
			took[way] = append(took[way], time.Since(start))
		}
	}
	median := func(way int) time.Duration {
		slices.Sort(took[way])
		return took[way][len(took[way])/2]
	}
	for i, w := range ways {
		t.Logf("%-46s median %6.2fs of %v, fanoutctl took %.2f times as long", w.name, median(i).Seconds(), took[i], median(0).Seconds()/median(i).Seconds())
	}
}

func resource(round int) string { return fmt.Sprintf("round-%d", round) }

// serve starts a fanoutd with the etcd.
func serve(t *testing.T, etcd string) (address string) {
	t.Helper()
	cfg := inprocess.Config(t)
	cfg.EtcdEndpoints = []string{etcd}
	cfg.Resources = nil
	for round := range rounds {
		cfg.Resources = append(cfg.Resources, config.NewResource(resource(round)))
	}
	return inprocess.Start(t, cfg).Address()
}

// documents writes the file to import.
func documents(t *testing.T, all []object) string {
	t.Helper()
	var text strings.Builder
	e := json.NewEncoder(&text)
	for _, o := range all {
		err := e.Encode(map[string]any{"key": o.key, "contentType": "application/json", "value": json.RawMessage(o.value)})
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "objects.jsonl")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func puts(ctx context.Context, c *clientv3.Client, prefix string, all []object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64)
	for _, o := range all {
		group.Go(func() error {
			_, err := c.Put(ctx, prefix+o.key, o.value)
			return err
		})
	}
	return group.Wait()
}

func transactions(ctx context.Context, c *clientv3.Client, prefix string, all []object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for batch := range slices.Chunk(all, 128) {
		group.Go(func() error {
			ops := make([]clientv3.Op, len(batch))
			for i, o := range batch {
				ops[i] = clientv3.OpPut(prefix+o.key, o.value)
			}
			_, err := c.Txn(ctx).Then(ops...).Commit()
			return err
		})
	}
	return group.Wait()
}
