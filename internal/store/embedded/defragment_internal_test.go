package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// startTestMember starts a member; with peers, the first of several.
func startTestMember(t *testing.T, peers *Peers) *Member {
	t.Helper()
	m, err := Start(t.Context(), Config{Dir: t.TempDir(), UnsafeNoFsync: true, Peers: peers}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *Member) putAll(t *testing.T, count, bytes int) {
	t.Helper()
	for n := range count {
		if _, err := m.Client.Put(t.Context(), fmt.Sprint(bytes, "/", n), strings.Repeat("x", bytes)); err != nil {
			t.Fatal(err)
		}
	}
}

// Data that was deleted needs no space in a defragmentation, although a reader may still see it.
func TestDefragmentationNeedsNoSpaceForDeletedData(t *testing.T) {
	m := startTestMember(t, nil)
	m.putAll(t, 20, 1_000_000)
	m.backend().ForceCommit()
	reader := m.backend().ConcurrentReadTx()
	defer reader.RUnlock()
	for n := range 20 {
		if _, err := m.Client.Delete(t.Context(), fmt.Sprint(1_000_000, "/", n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.backend().ForceCommit()
	m.backend().ForceCommit()
	if inUse := m.backend().SizeInUse(); inUse < 20_000_000 {
		t.Fatalf("%d bytes are in use, so the reader does not see the deleted data", inUse)
	}
	if got, err := m.defragmentedBytes(); err != nil || got > 100_000 {
		t.Errorf("got %d, %v, want nearly nothing", got, err)
	}
}

// The estimate is what a defragmentation leaves, for values that fill their pages well or badly.
func TestDefragmentedBytes(t *testing.T) {
	for _, test := range []struct{ count, bytes int }{
		{25_000, 10}, {5_000, 500}, {2_000, 1_300}, {2_000, 1_900}, {1_000, 2_200}, {1_000, 4_000}, {50, 500_000},
	} {
		t.Run(fmt.Sprint(test.bytes), func(t *testing.T) {
			t.Parallel()
			m := startTestMember(t, nil)
			m.putAll(t, test.count, test.bytes)
			got, err := m.defragmentedBytes()
			if err != nil {
				t.Fatal(err)
			}
			if err := m.backend().Defrag(); err != nil {
				t.Fatal(err)
			}
			const others = 100_000 // branches, and pages that every database has
			if want := m.backend().Size(); got < want*8/9-others || got > want*9/8 {
				t.Errorf("got %d bytes, and a defragmentation left %d", got, want)
			}
		})
	}
}
