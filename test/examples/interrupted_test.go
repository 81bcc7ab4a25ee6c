package examples

import (
	"strings"
	"testing"
)

// forgetful is a resource whose server remembers only two events.
const forgetful = "forgetful"

// A RESET, a DELTA or a large revision that breaks in the middle leaves nothing behind:
// neither half a snapshot, nor an object that is gone when the next stream begins.
func TestInterruptedCatchUpsLeaveNothingBehind(t *testing.T) {
	inEachLanguage(t, func(t *testing.T, language string) {
		s := startServer(t)
		large := strings.Repeat("large ", 150_000)
		half := large[:700_000]                // two of them fit into a request, but not into a message
		const one, some = 1_000_000, 2_000_000 // bytes for one or two messages, but not all
		want := "=" + large[:20]

		// A RESET.
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

		// A DELTA.
		s.cut()
		s.put(t, forgetful, "shop/d", large, "shop/e", large, "shop/f", large)
		sub.until(t, "disconnected")
		s.healFor(some)
		sub.expect(t, "DELTA")
		awaitSilence(t, sub)
		s.delete(t, forgetful, "shop/d")
		s.heal()
		sub.expect(t, "DELTA", "added shop/e"+want, "added shop/f"+want, "synced 4")

		// A revision that is larger than a message.
		s.healFor(one)
		s.putTogether(t, forgetful, "shop/g", half, "shop/h", half)
		awaitSilence(t, sub)
		s.delete(t, forgetful, "shop/g")
		s.heal()
		sub.expect(t, "DELTA", "added shop/h"+want, "synced 5")
	})
}

// awaitSilence waits until the subscriber has read what comes through and takes the server
// for dead. Until then it must not change its state.
func awaitSilence(t *testing.T, sub *subscriber) {
	t.Helper()
	gaveUp := func(l line) bool { return l.What == "disconnected" && strings.HasPrefix(l.Why, "nothing came") }
	if l := sub.next(t, func(l line) bool { return gaveUp(l) || l.String() != "" }); !gaveUp(l) {
		t.Fatalf("got %q before the rest of it arrived, want silence; the subscriber printed\n%s", l, sub.lines.text())
	}
}
