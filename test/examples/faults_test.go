package examples

import (
	"os"
	"strings"
	"syscall"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// A subscriber notices a dead connection by its silence, and opens another one.
func TestSilentConnectionIsReplaced(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, language string) {
		s := startServer(t)
		s.put(t, resource, "shop/a", "1")
		sub := subscribe(t, language, s, stateFile(t), resource, "shop")
		sub.expect(t, "begin 0", "RESET", "added shop/a=1", "synced 1")
		s.silence()
		s.put(t, resource, "shop/a", "2")
		if l := sub.until(t, "disconnected"); !strings.HasPrefix(l.Why, "nothing came for 6") {
			t.Errorf("disconnected: got reason %q", l.Why)
		}
		sub.expect(t, "REPLAY", "modified shop/a=2", "synced 1")
	})
}

// A state of another epoch, or of the future, is replaced.
func TestStateOfAnotherHistoryIsReplaced(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, language string) {
		s, file := startServer(t), stateFile(t)
		s.put(t, resource, "shop/a", "1", "shop/b", "1")
		other := s.list(t, resource, "shop")
		other.Objects[1].Key = "shop/gone"
		other.Position.Epoch = "another"
		store(t, file, resource, "shop", other)
		sub := subscribe(t, language, s, file, resource, "shop")
		sub.expect(t, "begin 2", "RESET", "deleted shop/gone", "added shop/b=1", "synced 2")
		sub.end(t, syscall.SIGTERM)
		compare(t, s, file)

		// A position that etcd has not reached: etcd was restored from a backup.
		future := s.list(t, resource, "shop")
		future.Objects[0].Value = &fanoutv1.Object_Text{Text: "of the future"}
		future.Position.Revision += 1000
		store(t, file, resource, "shop", future)
		sub = subscribe(t, language, s, file, resource, "shop")
		if l := sub.until(t, "disconnected"); !strings.HasPrefix(l.Why, "REVISION_IN_FUTURE") {
			t.Errorf("disconnected: got reason %q", l.Why)
		}
		sub.expect(t, "RESET", "modified shop/a=1", "synced 2")
		sub.end(t, syscall.SIGTERM)
		compare(t, s, file)
	})
}

// A file that is damaged, or of another watch, is reported and not used.
func TestDamagedFileIsNotUsed(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, language string) {
		s, file := startServer(t), stateFile(t)
		s.put(t, resource, "shop/a", "1")
		good := s.list(t, resource, "shop")
		for name, damage := range map[string]func(){
			"not JSON":         func() { _ = os.WriteFile(file, []byte(`{"watch`), 0o600) },
			"not of this kind": func() { _ = os.WriteFile(file, []byte(`{}`), 0o600) },
			"no position":      func() { store(t, file, resource, "shop", &fanoutv1.ListResponse{}) },
			"other prefix":     func() { store(t, file, resource, "ship", good) },
		} {
			damage()
			sub := subscribe(t, language, s, file, resource, "shop")
			sub.expect(t, "damaged", "begin 0", "RESET", "added shop/a=1", "synced 1")
			if code := sub.end(t, syscall.SIGTERM); code != 0 {
				t.Errorf("%s: got exit code %d, want 0", name, code)
			}
			compare(t, s, file)
		}
	})
}

func TestRefusalEndsTheSubscriber(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, language string) {
		s := startServer(t)
		sub := subscribe(t, language, s, stateFile(t), "nowhere", "shop")
		sub.expect(t, "begin 0")
		if l := sub.until(t, "refused"); !strings.HasPrefix(l.Why, "UNKNOWN_RESOURCE: ") {
			t.Errorf("refused: got reason %q, want UNKNOWN_RESOURCE", l.Why)
		}
		if code := sub.wait(t); code != 1 {
			t.Errorf("got exit code %d, want 1", code)
		}
	})
}
