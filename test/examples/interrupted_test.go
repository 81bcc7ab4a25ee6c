package examples

import (
	"strings"
	"testing"
)

// forgetful is the resource of which a server remembers no more than two events.
const forgetful = "forgetful"

// What takes several messages and is cut off in the middle leaves nothing behind:
// neither half a snapshot, nor an object that is gone when the next attempt begins at
// the old position, where it had not been.
func TestMessagesThatBelongTogetherAreAllOrNothing(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, language string) {
		s := startServer(t)
		large := strings.Repeat("large ", 150_000)
		half := large[:700_000]                // two of them are more than a message, and less than a request
		const one, some = 1_000_000, 2_000_000 // bytes on the way: one message or two, but not all
		want := "=" + large[:20]

		// A snapshot.
		s.put(t, forgetful, "shop/a", large, "shop/b", large, "shop/c", large)
		s.cut()
		sub := subscribe(t, language, s, stateFile(t), forgetful, "shop")
		sub.expect(t, "begin 0")
		s.healFor(some)
		sub.expect(t, "RESET")
		awaitSilence(t, sub)
		s.delete(t, forgetful, "shop/a")
		s.heal()
		sub.expect(t, "RESET", "added shop/b"+want, "added shop/c"+want, "synced 2")

		// What has changed since a position.
		s.cut()
		s.put(t, forgetful, "shop/d", large, "shop/e", large, "shop/f", large)
		sub.until(t, "disconnected")
		s.healFor(some)
		sub.expect(t, "DELTA")
		awaitSilence(t, sub)
		s.delete(t, forgetful, "shop/d")
		s.heal()
		sub.expect(t, "DELTA", "added shop/e"+want, "added shop/f"+want, "synced 4")

		// One revision.
		s.healFor(one)
		s.putTogether(t, forgetful, "shop/g", half, "shop/h", half)
		awaitSilence(t, sub)
		s.delete(t, forgetful, "shop/g")
		s.heal()
		sub.expect(t, "DELTA", "added shop/h"+want, "synced 5")
	})
}

// awaitSilence waits until the subscriber has read as much as comes through, and
// gives up. It must not have made anything of it.
func awaitSilence(t *testing.T, sub *subscriber) {
	t.Helper()
	gaveUp := func(l line) bool { return l.What == "disconnected" && strings.HasPrefix(l.Why, "nothing came") }
	if l := sub.next(t, func(l line) bool { return gaveUp(l) || l.String() != "" }); !gaveUp(l) {
		t.Fatalf("%q, but not all that belongs to it has come; the subscriber printed\n%s", l, sub.lines.text())
	}
}
