package examples

import (
	"cmp"
	"slices"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

const resource = "config"

// A subscriber gets a snapshot, then every change once, across restarts of the server and
// of the subscriber.
func TestSubscriberResumes(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, language string) {
		s, file := startServer(t), stateFile(t)
		s.put(t, resource, "shop/a", "1", "shop/b", "1", "shop/c", "1", "shopping/x", "not below shop")
		sub := subscribe(t, language, s, file, resource, "shop")
		sub.expect(t, "begin 0", "RESET", "added shop/a=1", "added shop/b=1", "added shop/c=1", "synced 3")

		s.put(t, resource, "shop/a", "2", "shop/d", "1", "shopping/x", "2")
		s.delete(t, resource, "shop/b")
		sub.expect(t, "modified shop/a=2", "added shop/d=1", "deleted shop/b")
		sub.until(t, "bookmark")

		// The server is killed, and the subscriber misses changes.
		s.end(t, syscall.SIGKILL)
		s.cut()
		sub.until(t, "disconnected")
		s.start(t)
		s.put(t, resource, "shop/a", "3", "shop/e", "1")
		s.delete(t, resource, "shop/c")
		s.heal()
		sub.expect(t, "REPLAY", "modified shop/a=3", "added shop/e=1", "deleted shop/c", "synced 3")

		// The server is stopped, and sends DRAINING.
		if code := s.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("the server: got exit code %d, want 0", code)
		}
		s.cut()
		sub.until(t, "draining")
		s.start(t)
		s.put(t, resource, "shop/d", "2")
		s.heal()
		sub.expect(t, "REPLAY", "modified shop/d=2", "synced 3")
		s.put(t, resource, "shop/d", "3")
		sub.expect(t, "modified shop/d=3")

		// The subscriber is stopped, and resumes from its file.
		if code := sub.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("the subscriber: got exit code %d, want 0", code)
		}
		sub.expect(t, "end 3")
		compare(t, s, file)
		s.put(t, resource, "shop/a", "4")
		s.delete(t, resource, "shop/e")
		sub = subscribe(t, language, s, file, resource, "shop")
		sub.expect(t, "begin 3", "REPLAY", "modified shop/a=4", "deleted shop/e", "synced 2")

		// The subscriber is killed. Its file is older, so it gets some changes again.
		sub.until(t, "bookmark")
		s.put(t, resource, "shop/f", "1")
		sub.expect(t, "added shop/f=1")
		sub.end(t, syscall.SIGKILL)
		s.put(t, resource, "shop/g", "1")
		sub = subscribe(t, language, s, file, resource, "shop")
		if l := sub.until(t, "catch-up"); l.Kind != "REPLAY" {
			t.Errorf("after the kill: got catch-up %s, want REPLAY", l.Kind)
		}
		sub.next(t, func(l line) bool { return l.String() == "synced 4" })
		sub.end(t, syscall.SIGINT)
		compare(t, s, file)
	})
}

// compare compares the state in the file with the objects of the server.
func compare(t *testing.T, s *server, file string) {
	t.Helper()
	want, got := s.list(t, resource, "shop"), load(t, file)
	slices.SortFunc(got.GetObjects(), func(a, b *fanoutv1.Object) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
	if diff := gocmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want, "remaining_count", "position")); diff != "" {
		t.Errorf("objects: -server +subscriber:\n%s", diff)
	}
}
