package behaviour

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/load"
	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/test/behaviour/driver"
	"github.com/fanoutd/fanoutd/test/certs"
)

// watch opens a watch at scripted servers, with the name w, which is its prefix and that of its client.
func (s *scene) watch(p *clientProgram, c driver.Command, servers ...*script.Server) {
	s.Helper()
	addresses := make([]string, 0, len(servers))
	for _, server := range servers {
		addresses = append(addresses, server.Address())
	}
	if c.Name == "" {
		c.Name = "w"
	}
	if c.BookmarkMillis == 0 {
		c.BookmarkMillis = 60_000 // silence is not the subject
	}
	p.must(driver.Command{Do: driver.NewClient, Client: c.Name, Servers: addresses, Token: c.Token, TokenFile: c.TokenFile})
	c.Do, c.Client, c.Prefix = driver.Watch, c.Name, c.Name
	p.must(c)
}

// history returns a history with an object of each watch.
func history(watches ...string) *script.History {
	h := script.NewHistory("e1")
	for _, w := range append(watches, "w") {
		h.Write(script.Put(w+"/1", `"1"`))
	}
	return h
}

// pass waits until some time has passed, which is the subject of the test.
func pass(d time.Duration) { <-time.After(d) } // the subject of the test

// restarts ends a stream of a watch, and those after it, until the watch has begun again n times. It returns the last
// stream, and the times from the beginning of each stream to that of the next one, which have the pauses of the client.
func (s *scene) restarts(server *script.Server, w *script.Watch, n int, end func(*script.Watch)) (last *script.Watch, times []time.Duration) {
	s.Helper()
	for range n {
		end(w)
		next := s.accept(server, w.Name())
		times = append(times, next.Opened.Sub(w.Opened))
		w = next
	}
	return w, times
}

func sum(all []time.Duration) (total time.Duration) {
	for _, d := range all {
		total += d
	}
	return total
}

// backoffLimits are the limits of the first pauses.
var backoffLimits = []time.Duration{
	200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond,
}

// That a RetryInfo of more than 60 s counts as 60 s takes too long here. The scenario endless-delay of the conformance
// kit tests it, and these unit tests, which move the clock or ask for the delay: TestWatchesDoNotStorm in package client,
// test_delays of tests/test_watch_rules.py for Python, and "RetryInfo is added, at most a minute" of
// test/watch_policy.test.ts for Node.js.
func testBackoff(s *scene) {
	server, h := s.scripted(true), history()
	p := s.start()
	s.watch(p, driver.Command{}, server)
	refuse := func(w *script.Watch) { w.Refuse(script.Unavailable(0)) }
	w, times := s.restarts(server, s.accept(server, "w"), 1, func(w *script.Watch) { w.Refuse(script.Unavailable(1200 * time.Millisecond)) })
	if times[0] < 1200*time.Millisecond {
		s.Errorf("the pause after RetryInfo of 1.2 s is %v", times[0])
	}
	// One failure has been counted. The limits 0.4, 0.8, ... 5 s make seven pauses this short once in 10,000 runs.
	w, times = s.restarts(server, w, 7, refuse)
	if sum(times) < time.Second {
		s.Errorf("seven pauses take %v", times)
	}
	w.Send(h.Reset("w", 1)...)
	pass(5500 * time.Millisecond)
	ended := time.Now()
	w.End(script.Unavailable(0))
	w, _ = s.restarts(server, s.accept(server, "w"), 2, refuse)
	// The limits are 0.2, 0.4 and 0.8 s again, and would otherwise be 5 s.
	if took := w.Opened.Sub(ended); took > load.Scale(sum(backoffLimits[:3])+3*time.Second) {
		s.Errorf("after a stream that has lasted, three pauses take %v", took)
	}
}

func testOtherServer(s *scene) {
	p := s.start()
	for name, end := range map[string]error{
		"unavailable": proxyError(codes.Unavailable),
		"not-ready":   script.Unavailable(0),
		"internal":    script.Refusal(codes.Internal, "INTERNAL"),
		"limit":       script.Refusal(codes.ResourceExhausted, "LIMIT_REACHED"),
		"deadline":    proxyError(codes.DeadlineExceeded),
		"cancelled":   proxyError(codes.Canceled),
		"unknown":     proxyError(codes.Unknown),
		"not-found":   proxyError(codes.NotFound),
	} {
		for _, subscribes := range []bool{false, true} {
			servers := []*script.Server{s.scripted(subscribes), s.scripted(subscribes)}
			w, at := s.watchWithAnother(p, fmt.Sprintf("%s-%v", name, subscribes), servers)
			w.End(end)
			s.accept(servers[1-at], w.Name())
		}
	}
	servers := []*script.Server{s.scripted(true), s.scripted(true)}
	w, at := s.watchWithAnother(p, "out-of-range", servers)
	w.End(script.Refusal(codes.OutOfRange, "REVISION_IN_FUTURE"))
	if again := s.accept(servers[at], w.Name()); again.Stream != w.Stream {
		s.Error("the watch leaves its stream after OUT_OF_RANGE")
	}
}

// watchWithAnother opens a watch at one of two servers, and makes it work. It returns the watch, and its server.
// Another watch of the client is open, too.
func (s *scene) watchWithAnother(p *clientProgram, name string, servers []*script.Server) (w *script.Watch, at int) {
	s.Helper()
	s.watch(p, driver.Command{Name: name}, servers...)
	s.until("the watch "+name+" is open", func() bool { return servers[0].Waiting(name)+servers[1].Waiting(name) > 0 })
	if servers[1].Waiting(name) > 0 {
		at = 1
	}
	w = s.accept(servers[at], name)
	another := "another-" + name
	p.must(driver.Command{Do: driver.Watch, Client: name, Name: another, Prefix: another, BookmarkMillis: 60_000})
	s.until("another watch is open", func() bool { return servers[0].Waiting(another)+servers[1].Waiting(another) > 0 })
	w.Send(history(name).Reset(name, 1)...)
	p.await("the watch works", func(lines []driver.Line) bool {
		got := about(lines, name, driver.Updated)
		return len(got) > 0 && got[len(got)-1].Revision == 1
	})
	return w, at
}

func testResumeAtOnce(s *scene) {
	server, h := s.scripted(true), history()
	p := s.start()
	s.watch(p, driver.Command{}, server)
	connection := 0
	drain := func(w *script.Watch) {
		if w.Connection == connection {
			s.Error("the client resumes on the connection of the server that drains")
		}
		connection = w.Connection
		w.Send(h.Reset("w", 1)...)
		w.Send(h.Draining(1, true))
		w.End(script.Refusal(codes.Unavailable, "DRAINING"))
	}
	w, _ := s.restarts(server, s.accept(server, "w"), 3, drain)
	// From now on, as after failures: eight such pauses are this short once in 10,000 runs. A stream that takes a second
	// on a busy machine is resumed at once, and takes a second.
	if _, times := s.restarts(server, w, 8, drain); sum(times) < time.Second {
		s.Errorf("eight pauses take %v", times)
	}
}

func testDraining(s *scene) {
	server, h := s.scripted(true), history()
	p := s.start()
	s.watch(p, driver.Command{}, server)
	w := s.accept(server, "w")
	w.Send(h.Reset("w", 1)...)
	w.Send(h.Draining(1, false))
	w.End(script.Refusal(codes.Unavailable, "DRAINING"))
	if w := s.accept(server, "w"); w.Request.GetAfter().GetRevision() != 1 {
		s.Errorf("the client resumes after %v", w.Request.GetAfter())
	}
}

func testTimeLimit(s *scene) {
	server, h := s.scripted(true), history()
	p := s.start()
	s.watch(p, driver.Command{}, server)
	streams := 0
	w, times := s.restarts(server, s.accept(server, "w"), 8, func(w *script.Watch) {
		if after := w.Request.GetAfter().GetRevision(); after != int64(min(streams, 1)) {
			s.Errorf("stream %d begins after %d", streams+1, after)
		}
		w.Send(h.From("w", w.Request.GetAfter())...)
		streams++
		p.awaitLines(streams, "w", driver.Updated)
		if streams%2 == 0 {
			w.Send(h.Draining(1, false))
		}
		w.End(nil)
	})
	// The limits are 0.2, 0.4, ... 5 s. Without the growth, eight pauses would take less. They are this short once in 10,000 runs.
	if sum(times) < 1600*time.Millisecond {
		s.Errorf("eight pauses take %v", times)
	}
	if after := w.Request.GetAfter().GetRevision(); after != 1 {
		s.Errorf("the last stream begins after %d", after)
	}
	if got := p.about("w", driver.Interrupted); len(got) > 0 {
		s.Errorf("the end of a stream is an interruption: %+v", got)
	}
}

func testFinal(s *scene) {
	server := s.scripted(true)
	p := s.start()
	finals := map[string]error{
		"INVALID_ARGUMENT":    script.Refusal(codes.InvalidArgument, "INVALID_REQUEST"),
		"NOT_FOUND":           script.Refusal(codes.NotFound, "UNKNOWN_RESOURCE"),
		"PERMISSION_DENIED":   script.Refusal(codes.PermissionDenied, "PERMISSION_DENIED"),
		"UNIMPLEMENTED":       script.Refusal(codes.Unimplemented, "INVALID_REQUEST"),
		"FAILED_PRECONDITION": script.Refusal(codes.FailedPrecondition, "SOME_REASON"),
		"RESOURCE_EXHAUSTED":  script.Refusal(codes.ResourceExhausted, "REQUEST_TOO_LARGE"),
	}
	for code, err := range finals {
		s.watch(p, driver.Command{Name: code}, server)
		s.accept(server, code).Refuse(err)
	}
	s.watch(p, driver.Command{Name: "proxy"}, server)
	s.accept(server, "proxy").Refuse(proxyError(codes.PermissionDenied))
	finals["proxy"] = nil
	for name := range finals {
		want := name
		if name == "proxy" {
			want = "PERMISSION_DENIED"
		}
		if got := p.awaitLines(1, name, driver.Ended); got[0].Code != want {
			s.Errorf("%s: the watch ends with %+v", name, got[0])
		}
	}
	for name, err := range map[string]error{
		"worked":    proxyError(codes.PermissionDenied),
		"new-kind":  proxyError(codes.PermissionDenied),
		"internal":  script.Refusal(codes.Internal, "INTERNAL"),
		"unknown":   proxyError(codes.Unknown),
		"dataloss":  proxyError(codes.DataLoss),
		"aborted":   proxyError(codes.Aborted),
		"cancelled": proxyError(codes.Canceled),
		"exhausted": script.Refusal(codes.ResourceExhausted, "LIMIT_REACHED"),
		"deadline":  proxyError(codes.DeadlineExceeded),
	} {
		h := history(name)
		s.watch(p, driver.Command{Name: name}, server)
		if name == "worked" {
			w := s.accept(server, name)
			w.Send(h.Reset(name, 1)...)
			p.awaitLines(1, name, driver.Updated)
			w.End(script.Unavailable(0))
		}
		if name == "new-kind" {
			w, m := s.accept(server, name), h.Bookmark(1)
			m.Kind = 1000
			w.Send(m)
			w.End(script.Unavailable(0))
		}
		s.accept(server, name).Refuse(err)
		w := s.accept(server, name)
		w.Send(h.From(name, w.Request.GetAfter())...)
		if got := p.about(name, driver.Ended); len(got) > 0 {
			s.Errorf("%s: the watch has ended: %+v", name, got)
		}
	}
}

func testUnauthenticated(s *scene) {
	server, h := s.scripted(true), history("renewed")
	p := s.start()
	refuse := script.Refusal(codes.Unauthenticated, "UNAUTHENTICATED")
	s.watch(p, driver.Command{Name: "fixed", Token: "x"}, server)
	s.accept(server, "fixed").Refuse(refuse)
	if got := p.awaitLines(1, "fixed", driver.Ended); got[0].Code != unauthenticated {
		s.Errorf("the watch ends with %+v", got[0])
	}
	file := filepath.Join(s.TempDir(), "token")
	certs.Write(s, file, []byte("x"))
	s.watch(p, driver.Command{Name: "file", TokenFile: file}, server)
	s.accept(server, "file").Refuse(refuse)
	s.accept(server, "file").Refuse(refuse)
	if got := p.awaitLines(1, "file", driver.Ended); got[0].Code != unauthenticated {
		s.Errorf("the watch ends with %+v", got[0])
	}
	s.watch(p, driver.Command{Name: "renewed", TokenFile: file}, server)
	w := s.accept(server, "renewed")
	w.Send(h.Reset("renewed", 1)...)
	p.awaitLines(1, "renewed", driver.Updated)
	ended := time.Now()
	w.End(refuse)
	if w := s.accept(server, "renewed"); w.Opened.Sub(ended) < 4900*time.Millisecond {
		s.Errorf("the client tries again after %v, want 5 s", w.Opened.Sub(ended))
	}
}

func testOutOfRange(s *scene) {
	server := s.scripted(true)
	p := s.start()
	for i, err := range []error{
		script.Refusal(codes.OutOfRange, "POSITION_EXPIRED"), script.Refusal(codes.OutOfRange, "REVISION_IN_FUTURE"),
		script.Refusal(codes.OutOfRange, "SOMETHING_NEW"), proxyError(codes.OutOfRange),
	} {
		name := fmt.Sprintf("lost-%d", i)
		h := history(name)
		s.watch(p, driver.Command{Name: name, Epoch: "e1", Revision: 1}, server)
		s.accept(server, name).Refuse(err)
		w := s.accept(server, name)
		if w.Request.GetAfter().GetRevision() != 0 {
			s.Errorf("%v: the client keeps the position %v", err, w.Request.GetAfter())
		}
		w.Send(h.Reset(name, 1)...)
		p.await("a new state", func(lines []driver.Line) bool {
			for _, l := range about(lines, name, driver.Updated) {
				if l.Replace {
					return true
				}
			}
			return len(about(lines, name, driver.Ended)) > 0
		})
		name = fmt.Sprintf("every-%d", i)
		s.watch(p, driver.Command{Name: name, Epoch: "e1", Revision: 1, EveryEvent: true}, server)
		s.accept(server, name).Refuse(err)
		if got := p.awaitLines(1, name, driver.Ended); got[0].Code != "OUT_OF_RANGE" {
			s.Errorf("%v: every_event ends with %+v", err, got[0])
		}
		if i == 0 {
			continue // a first state that took too long
		}
		name = fmt.Sprintf("none-%d", i)
		s.watch(p, driver.Command{Name: name}, server)
		s.accept(server, name).Refuse(err)
		if got := p.awaitLines(1, name, driver.Ended); got[0].Code != "OUT_OF_RANGE" {
			s.Errorf("%v: a watch without a position ends with %+v", err, got[0])
		}
	}
	s.firstStateTooSlow(server, p)
}

// firstStateTooSlow ends streams in their first state, because etcd has forgotten its revision.
func (s *scene) firstStateTooSlow(server *script.Server, p *clientProgram) {
	s.Helper()
	expired := script.Refusal(codes.OutOfRange, "POSITION_EXPIRED")
	begin := func(h *script.History, w *script.Watch) { w.Send(h.Reset(w.Name(), 1)[:1]...) }
	for name, c := range map[string]struct {
		command driver.Command
		lost    bool // it had a position before, which was lost
		ends    bool
	}{
		"slow":       {},
		"slow-least": {command: driver.Command{MinRevision: 1}},
		"slow-exact": {command: driver.Command{AtRevision: 1}, ends: true},
		"slow-every": {command: driver.Command{EveryEvent: true}, ends: true},
		"lost-exact": {command: driver.Command{AtRevision: 1}, lost: true},
	} {
		h := history(name)
		c.command.Name = name
		s.watch(p, c.command, server)
		w := s.accept(server, name)
		if c.lost {
			w.Send(h.Reset(name, 1)...)
			p.awaitLines(1, name, driver.Updated)
			w.End(expired)
			w = s.accept(server, name)
		}
		begin(h, w)
		w.End(expired)
		if c.ends {
			if got := p.awaitLines(1, name, driver.Ended); got[0].Reason != "POSITION_EXPIRED" {
				s.Errorf("%s: the watch ends with %+v", name, got[0])
			}
			continue
		}
		// It may take too long more than once.
		w = s.accept(server, name)
		begin(h, w)
		w.End(expired)
		w = s.accept(server, name)
		if w.Request.GetAfter() != nil {
			s.Errorf("%s: the client begins after %v", name, w.Request.GetAfter())
		}
		seen := len(p.about(name, driver.Updated))
		w.Send(h.Reset(name, 1)...)
		if got := p.awaitLines(seen+1, name, driver.Updated); !got[seen].Replace {
			s.Errorf("%s: got %+v, want a new state", name, got[seen])
		}
		if got := p.about(name, driver.Ended); len(got) > 0 {
			s.Errorf("%s: the watch has ended: %+v", name, got)
		}
	}
}

func testFirstOptions(s *scene) {
	server := s.scripted(true)
	p := s.start()
	for name, c := range map[string]driver.Command{
		"now": {FromNow: true}, "least": {MinRevision: 1}, "exact": {AtRevision: 1},
	} {
		h := history(name)
		c.Name = name
		s.watch(p, c, server)
		w := s.accept(server, name)
		if r := w.Request; r.GetFromNow() == nil && r.GetConsistency().GetMinRevision() != 1 && r.GetConsistency().GetExactRevision() != 1 {
			s.Errorf("%s: the first request is %v", name, r)
		}
		if c.FromNow {
			w.Send(h.Replay(name, 1, 1)...)
		} else {
			w.Send(h.Reset(name, 1)...)
		}
		p.await("the watch has a position", func(lines []driver.Line) bool {
			got := about(lines, name, driver.Updated)
			return len(got) > 0 && got[len(got)-1].Revision == 1
		})
		w.End(script.Unavailable(0))
		w = s.accept(server, name)
		if r := w.Request; r.GetFromNow() != nil || r.GetConsistency() != nil || r.GetAfter().GetRevision() != 1 {
			s.Errorf("%s: the client resumes with %v", name, r)
		}
		w.Refuse(script.Refusal(codes.OutOfRange, "POSITION_EXPIRED"))
		w = s.accept(server, name)
		if r := w.Request; r.GetFromNow() != nil || r.GetConsistency() != nil || r.GetAfter() != nil {
			s.Errorf("%s: after a lost position, the client begins with %v", name, r)
		}
	}
}

func testSilence(s *scene) {
	p := s.start()
	var variants sync.WaitGroup
	for name, c := range map[string]struct {
		bookmarks int
		age       time.Duration // 0: no message
		least     time.Duration
	}{
		"first": {1000, 0, 5 * time.Second},
		"later": {2500, -1, 7500 * time.Millisecond},
		"age":   {120_000, 358 * time.Second, 0}, // without the age, it waits for longer than the test
	} {
		servers := []*script.Server{s.scripted(true), s.scripted(true)}
		h := history(name)
		since := time.Now()
		s.watch(p, driver.Command{Name: name, BookmarkMillis: c.bookmarks}, servers...)
		variants.Go(func() {
			s.until("the watch "+name+" is open", func() bool { return servers[0].Waiting(name)+servers[1].Waiting(name) > 0 })
			first := 0
			if servers[1].Waiting(name) > 0 {
				first = 1
			}
			w := s.accept(servers[first], name)
			if c.age != 0 {
				messages := h.Reset(name, 1)
				if c.age > 0 {
					script.WithAge(messages[len(messages)-1], c.age)
				}
				w.Send(messages...)
				p.await("the state", func(lines []driver.Line) bool {
					got := about(lines, name, driver.Updated)
					return len(got) > 0 && got[len(got)-1].Revision == 1
				})
				since = w.Opened // before the last message
			}
			w.HalfOpen()
			defer servers[first].HangUp()
			again := s.accept(servers[1-first], name) // at the other server, on another connection
			if took := again.Opened.Sub(since); took < c.least {
				s.Errorf("%s: the client gives the server up after %v, want at least %v", name, took, c.least)
			}
		})
	}
	variants.Wait()
	s.silentAfterDraining(p)
}

// silentAfterDraining sends messages after DRAINING, which are no signs of life, and never the status.
func (s *scene) silentAfterDraining(p *clientProgram) {
	s.Helper()
	for _, subscribes := range []bool{false, true} {
		server, name := s.scripted(subscribes), fmt.Sprintf("drained-%v", subscribes)
		h := history(name)
		s.watch(p, driver.Command{Name: name, BookmarkMillis: 1000}, server)
		w := s.accept(server, name)
		w.Send(h.Reset(name, 1)...)
		w.Send(h.Draining(1, false))
		for gaveUp, open := time.After(patience), true; open; { // poll.Patience
			w.Send(h.Bookmark(1))
			select {
			case <-w.Gone():
				open = false
			case <-time.After(200 * time.Millisecond): // the pace of the messages
			case <-gaveUp:
				s.Fatalf("%s: the client waits for the status for ever", name)
			}
		}
		s.accept(server, name)
	}
}

// That a watch that is opened 5 minutes later tries Subscribe again takes too long here. These unit tests move the clock:
// TestWatchesWorkWithoutSubscribe in package client, test_subscribe_is_tried_again_after_five_minutes of
// tests/test_watch_rules.py for Python, and "Subscribe is tried again after five minutes" of test/watch_policy.test.ts for
// Node.js.
func testSubscribe(s *scene) {
	p := s.start()
	one := s.scripted(true)
	p.connect(one.Address())
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		p.must(driver.Command{Do: driver.Watch, Name: name, Prefix: name, BookmarkMillis: 60_000})
	}
	for _, name := range names {
		s.accept(one, name)
	}
	if n := one.Streams(); n != 1 {
		s.Errorf("five watches use %d streams", n)
	}
	// A server without Subscribe.
	s.put(s.prefix+"/a", "1")
	for _, f := range []*front{
		s.front(func(r request) error {
			if r.method == "Subscribe" {
				return proxyError(codes.Unimplemented)
			}
			return nil
		}),
		s.front(func(r request) error {
			if r.method == "Subscribe" {
				return hold(r)
			}
			return nil
		}),
	} {
		p.connect(f.Address)
		for i := range 2 {
			name := fmt.Sprintf("%s-%d", f.Address, i)
			// With so short an interval, the first message and the header have the same limit.
			p.must(driver.Command{Do: driver.Watch, Name: name, Prefix: s.prefix, BookmarkMillis: 1600})
			p.awaitLines(1, name, driver.Updated)
			if l := p.about(name, driver.Interrupted); len(l) > 0 {
				s.Errorf("the move to Watch is an interruption: %+v", l[0])
			}
		}
		if streams, watches := len(f.requests("Subscribe")), len(f.requests("Watch")); streams != 1 || watches != 2 {
			s.Errorf("the server got %d Subscribe and %d Watch requests, want 1 and 2", streams, watches)
		}
	}
	testLateSubscribe(s, p)
}

// testLateSubscribe lets a server be late with all answers. The header of Subscribe comes when the client has
// made another request to find out what is wrong.
func testLateSubscribe(s *scene, p *clientProgram) {
	late := make(chan struct{})
	release := sync.OnceFunc(func() { close(late) })
	f := s.front(func(r request) error {
		switch r.method {
		case "Report":
			release()
			return hold(r)
		case "Subscribe":
			select {
			case <-late:
			case <-r.ctx.Done():
			}
		}
		return nil
	})
	p.connect(f.Address)
	p.must(driver.Command{Do: driver.Watch, Name: "late", Prefix: s.prefix, BookmarkMillis: 60_000})
	p.awaitLines(1, "late", driver.Updated)
	if streams, watches := len(f.requests("Subscribe")), len(f.requests("Watch")); streams != 1 || watches != 0 {
		s.Errorf("late: the server got %d Subscribe and %d Watch requests, want 1 and 0", streams, watches)
	}
	if l := p.about("late", driver.Interrupted); len(l) > 0 {
		s.Errorf("late: the wait for Subscribe is an interruption: %+v", l[0])
	}
}

func testReports(s *scene) {
	p := s.start()
	for _, subscribes := range []bool{false, true} {
		server, name := s.scripted(subscribes), fmt.Sprintf("subscribe-%v", subscribes)
		h := history(name)
		s.watch(p, driver.Command{Name: name}, server)
		w := s.accept(server, name)
		asked := 3 * time.Second
		if !subscribes {
			w.RefuseReports(script.Refusal(codes.ResourceExhausted, "RATE_LIMITED", script.RetryIn(asked)))
		}
		w.Send(h.Reset(name, 1)...)
		n := 1
		if !subscribes {
			n++
			if got := s.reports(w, n); got[1].At.Sub(got[0].At) < asked {
				s.Errorf("%s: after RetryInfo of %v, the client reports again after %v", name, asked, got[1].At.Sub(got[0].At))
			}
		}
		s.reports(w, n)
		w.Send(h.Reset(name, 1)...) // the server forgets the reports
		for _, r := range s.reports(w, n+1) {
			if r.Applied.GetRevision() != 1 {
				s.Errorf("%s: the client reports %v", name, r.Applied)
			}
		}
		s.reportsOverStreams(server, h, w)
	}
}

// reportsOverStreams ends streams that the client resumes at once. It may not report on each of them at once.
func (s *scene) reportsOverStreams(server *script.Server, h *script.History, w *script.Watch) {
	s.Helper()
	began, reports := time.Now(), 0
	for range 4 {
		w.Send(h.Draining(1, true))
		w.End(nil)
		w = s.accept(server, w.Name())
		w.Send(h.From(w.Name(), w.Request.GetAfter())...)
		pass(100 * time.Millisecond)
		reports += len(w.Reports())
	}
	if most := int(time.Since(began)/time.Second) + 2; reports > most {
		s.Errorf("%s: the client sends %d reports on streams that have taken %v together", w.Name(), reports, time.Since(began))
	}
	s.reports(w, 1)
}

// reports waits until the client has sent so many reports, and returns them.
func (s *scene) reports(w *script.Watch, n int) []script.Report {
	s.Helper()
	s.until(fmt.Sprintf("the client has sent %d reports", n), func() bool { return len(w.Reports()) >= n })
	return w.Reports()
}

func testClock(s *scene) {
	s.put(s.prefix+"/a", `"1"`)
	held := s.front(hold)
	p := s.start()
	p.connect(s.server)
	p.must(driver.Command{Do: driver.NewClient, Client: "held", Servers: []string{held.Address}})
	p.must(driver.Command{Do: driver.Informer, Name: "i", Prefix: s.prefix, BookmarkMillis: 30_000, Handler: "h"})
	p.must(driver.Command{Do: driver.WaitForSync, Name: "i"})
	for i, seconds := range []float64{3600, -7200} {
		p.must(driver.Command{Do: driver.Step, Seconds: seconds})
		if p.must(driver.Command{Do: driver.State, Name: "i"}).Stale {
			s.Errorf("the copy is stale after a step of %v s", seconds)
		}
		p.must(driver.Command{Do: driver.Get, Key: s.prefix + "/a", Millis: 20_000})
		if l := p.do(driver.Command{Do: driver.Get, Client: "held", Key: "a", Millis: 500}); l.Code != deadlineExceeded {
			s.Errorf("after a step of %v s: %+v", seconds, l)
		}
		name := fmt.Sprint("later", i)
		p.must(driver.Command{Do: driver.Informer, Name: name, Prefix: s.prefix, BookmarkMillis: 30_000})
		p.must(driver.Command{Do: driver.WaitForSync, Name: name})
	}
	// A request that is open during a step.
	open := p.begin(driver.Command{Do: driver.Get, Client: "held", Key: "b", Millis: 2000})
	p.must(driver.Command{Do: driver.Step, Seconds: -3600})
	if l := open.wait(); l.Code != deadlineExceeded {
		s.Errorf("a request during a step: %+v", l)
	}
}
