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

// A subscriber gets a snapshot and then every change, once, whoever is restarted:
// who was away is told what was missed and nothing else.
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

		// The server is killed, and changes are missed.
		s.end(t, syscall.SIGKILL)
		s.cut()
		sub.until(t, "disconnected")
		s.start(t)
		s.put(t, resource, "shop/a", "3", "shop/e", "1")
		s.delete(t, resource, "shop/c")
		s.heal()
		sub.expect(t, "REPLAY", "modified shop/a=3", "added shop/e=1", "deleted shop/c", "synced 3")

		// The server is stopped, and says goodbye.
		if code := s.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("the server ended with %d", code)
		}
		s.cut()
		sub.until(t, "draining")
		s.start(t)
		s.put(t, resource, "shop/d", "2")
		s.heal()
		sub.expect(t, "REPLAY", "modified shop/d=2", "synced 3")
		s.put(t, resource, "shop/d", "3")
		sub.expect(t, "modified shop/d=3")

		// The subscriber is stopped and goes on where it was.
		if code := sub.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("the subscriber ended with %d", code)
		}
		sub.expect(t, "end 3")
		compare(t, s, file)
		s.put(t, resource, "shop/a", "4")
		s.delete(t, resource, "shop/e")
		sub = subscribe(t, language, s, file, resource, "shop")
		sub.expect(t, "begin 3", "REPLAY", "modified shop/a=4", "deleted shop/e", "synced 2")

		// The subscriber is killed. Its file is older, and whatever came since is
		// told again.
		sub.until(t, "bookmark")
		s.put(t, resource, "shop/f", "1")
		sub.expect(t, "added shop/f=1")
		sub.end(t, syscall.SIGKILL)
		s.put(t, resource, "shop/g", "1")
		sub = subscribe(t, language, s, file, resource, "shop")
		if l := sub.until(t, "catch-up"); l.Kind != "REPLAY" {
			t.Errorf("after being killed the subscriber got a %s", l.Kind)
		}
		sub.next(t, func(l line) bool { return l.String() == "synced 4" })
		sub.end(t, syscall.SIGINT)
		compare(t, s, file)
	})
}

// compare compares what is in the file with what the server has.
func compare(t *testing.T, s *server, file string) {
	t.Helper()
	want, got := s.list(t, resource, "shop"), load(t, file)
	slices.SortFunc(got.GetObjects(), func(a, b *fanoutv1.Object) int { return cmp.Compare(a.GetKey(), b.GetKey()) })
	if diff := gocmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(want, "remaining_count", "position")); diff != "" {
		t.Errorf("the state of the subscriber (-server +subscriber):\n%s", diff)
	}
}
