package scenario

import (
	"bytes"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

// newEpoch replaces etcd: revisions begin again, and the state is another one.
func newEpoch(r *run) {
	old := r.history("e1")
	for range 5 {
		old.Write(script.Put("a/1", "1"), script.Put("a/2", "2"))
	}
	w := r.sync(old, "a")
	// The revisions and the versions of an object may be those of the old epoch.
	h := r.history("e2")
	for range 5 {
		h.Write(script.Put("a/2", "other"), script.Put("a/3", "3"))
	}
	// In the middle of a stream,
	w.Send(h.Reset("a", h.Revision())...)
	r.expect("a", h.Position(h.Revision()))
	w.Send(h.Live("a", h.Write(script.Put("a/3", "4"))))
	r.expect("a", h.Position(h.Revision()))
	// and at its beginning.
	w.Cut()
	w = r.accept("a")
	r.beginsAfter(w, h.Position(h.Revision()))
	h = r.history("e3")
	h.Write(script.Put("a/4", "5"))
	w.Send(h.Reset("a", h.Revision())...)
	r.expect("a", h.Position(h.Revision()))
}

// lostPosition refuses the position of a client, for each reason that a server has without every_event.
func lostPosition(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	for _, reason := range []string{"POSITION_EXPIRED", "REVISION_IN_FUTURE", "A_REASON_OF_LATER_VERSIONS", ""} {
		w.Cut()
		w = r.accept("a")
		r.beginsAfter(w, h.Position(h.Revision()))
		refusal := script.Refusal(codes.OutOfRange, reason)
		if reason == "" {
			refusal = status.Error(codes.OutOfRange, "an error of a proxy")
		}
		w.Refuse(refusal)
		w = r.accept("a")
		r.beginsAfter(w, nil)
		h.Write(script.Put("a/1", reason))
		r.resume(h, w)
	}
}

func withState(path string) option {
	return func(c *testclient.Command) { c.State = path }
}

// restarted ends the client, and starts it again with its state file.
func restarted(r *run) {
	h := r.history("e1")
	h.Write(
		script.Put("a/1", "1"), script.Put("a/2", "2"), script.PutNothing("a/3"), script.Put("a/4", ""),
		script.Write{Key: "a/whole", Data: []byte{0, 0xff}, ContentType: "application/octet-stream", Labels: map[string]string{"env": "eu"}},
	)
	file := withState(r.stateFile("a"))
	w := r.sync(h, "a", file)
	w.Send(h.Live("a", h.Write(script.Put("a/1", "new"), script.Delete("a/2"))))
	saved := h.Position(h.Revision())
	r.expect("a", saved)
	for range 2 {
		r.restart()
		h.Write(script.Put("a/5", "while the client was away"))
		r.follow("a", file)
		// The client shows what it has saved before a server answers.
		r.expect("a", saved)
		w = r.accept("a")
		r.beginsAfter(w, saved)
		r.resume(h, w)
		saved = h.Position(h.Revision())
	}
}

// forgotten starts the client again without its state file.
func forgotten(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	file := r.stateFile("a")
	r.sync(h, "a", withState(file))
	r.restart()
	if err := os.Remove(file); err != nil {
		r.fail("the client has no state file: %w", err)
	}
	r.sync(h, "a", withState(file))
}

// damaged starts the client again with a damaged state file, and again with the file that it then wrote.
func damaged(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "of value"))
	file := r.stateFile("a")
	r.sync(h, "a", withState(file))
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)/2] },
		func(b []byte) []byte { return append(b[:len(b)*2/3:len(b)*2/3], b[len(b)*2/3+1:]...) },
		func(b []byte) []byte { // only a sum can tell
			changed := bytes.Replace(b, []byte("of value"), []byte("no value"), 1)
			if bytes.Equal(changed, b) {
				changed[len(b)/2] ^= 1
			}
			return changed
		},
		func([]byte) []byte { return nil },
		func([]byte) []byte { return []byte("{}\n") },
	} {
		r.restart()
		content, err := os.ReadFile(file)
		if err != nil {
			r.fail("the client has no state file: %w", err)
		}
		if err := os.WriteFile(file, damage(content), 0o600); err != nil {
			r.fail("damage the state file: %w", err)
		}
		r.follow("a", withState(file))
		r.expectLine("a", testclient.Damaged)
		w := r.accept("a")
		r.beginsAfter(w, nil)
		r.resume(h, w)
	}
	r.restart()
	r.follow("a", withState(file))
	r.beginsAfter(r.accept("a"), h.Position(h.Revision()))
}

// otherWatch starts the client with the state file of another watch.
func otherWatch(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("b/1", "2"))
	r.sync(h, "a", withState(r.stateFile("a")))
	r.restart()
	r.follow("b", withState(r.stateFile("a")))
	r.expectLine("b", testclient.Damaged)
	w := r.accept("b")
	r.beginsAfter(w, nil)
	r.resume(h, w)
}

// replaced keeps a hard link to the state file. A client that writes into its file, rather than replace it, changes what
// the link leads to.
func replaced(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	file := r.stateFile("a")
	r.sync(h, "a", withState(file))
	r.restart()
	link := r.stateFile("link")
	if err := os.Link(file, link); err != nil {
		r.fail("the client has no state file: %w", err)
	}
	before, err := os.ReadFile(link)
	if err != nil {
		r.fail("read the state file: %w", err)
	}
	r.follow("a", withState(file))
	w := r.accept("a")
	h.Write(script.Put("a/1", "2"))
	r.resume(h, w)
	r.restart()
	after, err := os.ReadFile(link)
	if err != nil {
		r.fail("read the state file: %w", err)
	}
	if !bytes.Equal(before, after) {
		r.fail("the client writes into its state file, so it has half of a state for a moment")
	}
	r.follow("a", withState(file))
	r.beginsAfter(r.accept("a"), h.Position(h.Revision()))
}

// killed kills the client at any time while it saves. Its file must be consistent.
func killed(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	file := withState(r.stateFile("a"))
	w := r.sync(h, "a", file)
	for range 3 {
		for range 100 {
			w.Send(h.Live("a", h.Write(script.Put("a/1", time.Now().String()), script.Put("a/2", "x"))))
		}
		r.until("the client has got something", func() bool { return r.states["a"].revision > 50 })
		r.program.Kill()
		r.start()
		r.allowed["a"] = testclient.Damaged // never written is no damage, and neither is half of a file
		r.follow("a", file)
		w = r.accept("a")
		if at := w.Request.GetAfter(); at.GetRevision() > h.Revision() {
			r.fail("the client begins after %v, which does not exist", at)
		}
		r.resume(h, w)
	}
}
