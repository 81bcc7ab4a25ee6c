package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/poll"
)

// historyPrefix is where the history of the resource is kept in etcd.
const historyPrefix = "/fanoutd/config#history/"

// alwaysTrue has a rule that reads the object that a put replaces, and always holds.
const alwaysTrue = `checks: [{rules: [{rule: "oldSelf == self || oldSelf != self", message: never}]}]`

// withSafeChange returns the configuration of a resource whose writes have a history and are checked by rules.
func withSafeChange(t *testing.T, config, rules string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, rules)
	return strings.TrimRight(config, "\n") + fmt.Sprintf("\n    history: {versions: 10000}\n    validation-file: %s\n", path)
}

// safeChangeIf returns the configuration with or without history and rules. Random tests have them in a part of
// their seeds.
func safeChangeIf(t *testing.T, on bool, config string) string {
	t.Helper()
	t.Logf("history and rules: %v", on)
	if on {
		return withSafeChange(t, config, alwaysTrue)
	}
	return config
}

// validateRecords checks that each record of the history is a change in the truth, and that those of a key are
// in order.
func validateRecords(t *testing.T, etcd *clientv3.Client, truth *check.Truth) {
	t.Helper()
	resp, err := etcd.Get(poll.Context(t), historyPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	records, entries := 0, 0
	newer := map[object.Key]int64{}
	for _, kv := range resp.Kvs {
		key := object.Key(strings.TrimPrefix(string(kv.Key), historyPrefix))
		if _, ok := history.ParseIndexKey(key); ok {
			entries++
			continue
		}
		name, ok := history.ParseRecordKey(key)
		if !ok {
			t.Fatalf("%q is not the key of a record", key)
		}
		records++
		if !truth.Has(name.Key, object.Revision(kv.CreateRevision)) {
			t.Errorf("%q has a record at revision %d, but was not written", name.Key, kv.CreateRevision)
		}
		if at, ok := newer[name.Key]; ok && at <= kv.CreateRevision {
			t.Errorf("%q has the record at revision %d after the one at revision %d", name.Key, at, kv.CreateRevision)
		}
		newer[name.Key] = kv.CreateRevision
	}
	t.Logf("%d records in the history", records)
	if records == 0 || records != entries {
		t.Errorf("got %d records and %d entries of the index", records, entries)
	}
}
