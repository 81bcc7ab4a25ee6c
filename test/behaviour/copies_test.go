package behaviour

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/load"
	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/test/behaviour/driver"
)

// informer returns an informer of the objects of the test, with bookmarks that come often.
func (s *scene) informer(name string) driver.Command {
	return driver.Command{Do: driver.Informer, Name: name, Prefix: s.prefix, BookmarkMillis: 1000}
}

// called returns how often a handler was called for a key.
func called(lines []driver.Line, name, handler, key string) (n int) {
	for _, l := range about(lines, name, driver.Called) {
		if l.Handler == handler && l.Key == key {
			n++
		}
	}
	return n
}

// awaitCall waits until a handler was called for a key.
func (p *clientProgram) awaitCall(name, handler, key string, times int) {
	p.s.Helper()
	p.await(fmt.Sprintf("call %d of handler %s of %s for %s", times, handler, name, key), func(lines []driver.Line) bool {
		return called(lines, name, handler, key) >= times
	})
}

// awaitValue waits until a copy has a value.
func (s *scene) awaitValue(p *clientProgram, name, key, value string) driver.Object {
	s.Helper()
	var o driver.Object
	s.until(fmt.Sprintf("%s has %s = %s", name, key, value), func() bool {
		o = p.must(driver.Command{Do: driver.State, Name: name}).Objects[key]
		return o.Value == value
	})
	return o
}

func testSync(s *scene) {
	const objects = 20
	for i := range objects {
		s.put(fmt.Sprintf("%s/%d", s.prefix, i), "1")
	}
	p := s.start()
	p.connect(s.server)
	count := func(until answer, handler string) (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, l := range p.lines[:until.find(p.lines)] {
			if l.What == driver.Called && l.Handler == handler {
				n++
			}
		}
		return n
	}
	c := s.informer("i")
	c.Stopped, c.Handler = true, "first"
	p.must(c)
	early := driver.Command{Do: driver.WaitForSync, Name: "i", Millis: 2000}
	if s.language == "go" {
		early.Millis = 0 // it waits for the start, for 10 s
	}
	if l := p.do(early); l.Code != driver.Refused {
		s.Errorf("before the start: %+v, want an error that says so", l)
	}
	p.must(driver.Command{Do: driver.Start, Name: "i"})
	synced := p.begin(driver.Command{Do: driver.WaitForSync, Name: "i"})
	if l := synced.wait(); l.Code != "" || count(synced, "first") != objects {
		s.Errorf("after %d calls: %+v", count(synced, "first"), l)
	}
	p.begin(driver.Command{Do: driver.AddHandler, Name: "i", Handler: "late"})
	synced = p.begin(driver.Command{Do: driver.WaitForSync, Name: "i"})
	if l := synced.wait(); l.Code != "" || count(synced, "late") != objects {
		s.Errorf("after %d calls of the late handler: %+v", count(synced, "late"), l)
	}
	p.must(driver.Command{Do: driver.Close, Name: "i"})
	if l := p.do(driver.Command{Do: driver.WaitForSync, Name: "i"}); l.Code == "" {
		s.Error("waiting for an informer that has ended succeeds")
	}
	p.must(driver.Command{Do: driver.NewClient, Client: "held", Servers: []string{s.front(hold).Address}})
	c = s.informer("held")
	c.Client = "held"
	p.must(c)
	if l := p.do(driver.Command{Do: driver.WaitForSync, Name: "held", Millis: 500}); l.Code != deadlineExceeded {
		s.Errorf("a wait with a timeout: %+v", l)
	}
}

func testStale(s *scene) {
	server, h := s.scripted(true), history()
	p := s.start()
	p.connect(server.Address())
	c := driver.Command{Do: driver.Informer, Name: "w", Prefix: "w", BookmarkMillis: 1000}
	p.must(c)
	w := s.accept(server, "w")
	stale := func() bool { return p.must(driver.Command{Do: driver.State, Name: "w"}).Stale }
	if !stale() {
		s.Error("a copy without a state is not stale")
	}
	var confirmed time.Time
	confirm := func(m ...script.Message) {
		confirmed = time.Now()
		w.Send(m...)
	}
	confirm(h.Reset("w", 1)...)
	s.until("the copy is fresh", func() bool {
		confirm(h.Bookmark(1))
		return !stale()
	})
	s.until("the copy is stale", stale)
	// Three intervals are 3 s, and two intervals and 2 s are longer. A server may have confirmed it a second before.
	if took := time.Since(confirmed); took < 2900*time.Millisecond {
		s.Errorf("the copy is stale %v after the confirmation, want 4 s", took)
	}
	s.staysConfirmed(p)
}

// staysConfirmed shows what confirms a copy, with bookmarks so rare that it does not become stale meanwhile.
func (s *scene) staysConfirmed(p *clientProgram) {
	s.Helper()
	server, h := s.scripted(true), history("rare")
	p.must(driver.Command{Do: driver.NewClient, Client: "rare", Servers: []string{server.Address()}})
	p.must(driver.Command{Do: driver.Informer, Client: "rare", Name: "rare", Prefix: "rare", BookmarkMillis: 1_200_000})
	w := s.accept(server, "rare")
	stale := func() bool { return p.must(driver.Command{Do: driver.State, Name: "rare"}).Stale }
	value := 1
	// live sends an event, and waits until the copy has it.
	live := func(age time.Duration) {
		s.Helper()
		value++
		text := fmt.Sprint(value)
		m := h.Live("rare", h.Write(script.Put("rare/1", text)))
		if age > 0 {
			script.WithAge(m, age)
		}
		w.Send(m)
		s.awaitValue(p, "rare", "rare/1", text)
	}
	w.Send(h.Reset("rare", h.Revision())...)
	live(0)
	if stale() {
		s.Error("the copy is stale after LIVE")
	}
	live(2 * time.Hour)
	if stale() {
		s.Error("a message with an age takes back what was confirmed before")
	}

	// After an interruption, the copy is stale until a server has confirmed it as of a later time.
	at := h.Revision()
	w.End(script.Unavailable(0))
	s.until("the copy is stale after an interruption", stale)
	w = s.accept(server, "rare")
	h.Write(script.Put("rare/1", "0"))
	replay := h.Replay("rare", at, h.Revision())
	w.Send(replay[:len(replay)-1]...)
	s.awaitValue(p, "rare", "rare/1", "0")
	if !stale() {
		s.Error("a part of a catch-up confirms the copy")
	}
	w.Send(script.WithAge(replay[len(replay)-1], 10*time.Minute))
	live(10 * time.Minute)
	if !stale() {
		s.Error("messages with an age from before the interruption confirm the copy")
	}
	// Servers do not state ages of less than a second.
	s.until("LIVE confirms the copy", func() bool {
		live(0)
		return !stale()
	})

	// The time limit is no interruption.
	at = h.Revision()
	w.Send(h.Draining(at, false))
	w.End(nil)
	w = s.accept(server, "rare")
	if stale() {
		s.Error("the copy is stale after the time limit of the server")
	}
}

func testHandlerRetry(s *scene) {
	s.put(s.prefix+"/a", "1")
	p := s.start()
	p.connect(s.server)
	began := time.Now()
	c := s.informer("i")
	c.Handler, c.Does, c.Times = "h", driver.Throw, 4
	p.must(c)
	p.must(driver.Command{Do: driver.WaitForSync, Name: "i"})
	p.awaitCall("i", "h", s.prefix+"/a", 3)
	// The delays are 1 and 2 s, each up to a fifth shorter.
	if took := time.Since(began); took < 2400*time.Millisecond {
		s.Errorf("three calls within %v", took)
	}
	// The next call would come after 4 s.
	changed := time.Now()
	s.put(s.prefix+"/a", "2")
	p.awaitCall("i", "h", s.prefix+"/a", 4)
	if took := time.Since(changed); took > load.Scale(3*time.Second) {
		s.Errorf("the handler gets a changed object after %v", took)
	}
	// It fails as well. The delay is 1 s again, not 8 s, and the last call does not fail.
	p.awaitCall("i", "h", s.prefix+"/a", 5)
	if took := time.Since(changed); took < 800*time.Millisecond || took > load.Scale(6*time.Second) {
		s.Errorf("the handler gets a changed object again %v after the change", took)
	}
	s.put(s.prefix+"/b", "1")
	p.awaitCall("i", "h", s.prefix+"/b", 1)
}

func testFence(s *scene) {
	key := s.prefix + "/a"
	s.put(key, `"1"`)
	p := s.start()
	for _, where := range []string{"handler", "decode", "interruption", "invalid", "sync"} {
		for _, does := range []string{driver.Throw, driver.Exit, driver.Cancel, driver.Hang} {
			// A function that blocks the event loop stops the whole program. In Python, callbacks are such functions,
			// except with fanoutd.sync: see test_callbacks_that_block_or_exit_end_nothing.
			blocks := s.language == "node" && where == "decode" || s.language == "python" && where != "handler"
			if does == driver.Hang && blocks {
				continue
			}
			s.fence(p, where, does, key)
		}
	}
}

// fence has one informer whose code misbehaves, and one that must not be affected.
func (s *scene) fence(p *clientProgram, where, does, key string) {
	s.Helper()
	mark := where + " " + does
	server := s.front(func(r request) error {
		if where == "interruption" && r.number == 1 && (r.method == "Subscribe" || r.method == "Watch") {
			return proxyError(codes.Unavailable)
		}
		return nil
	})
	p.must(driver.Command{Do: driver.NewClient, Client: mark, Servers: []string{server.Address}})
	state := filepath.Join(s.TempDir(), "state")
	bad, good := s.informer("bad "+mark), s.informer("good "+mark)
	bad.Client, good.Client = mark, mark
	bad.Handler, good.Handler = "h", "h"
	// An informer with a file has a watch of its own, so the good one shares that of another.
	other := s.informer("other " + mark)
	other.Client, other.State, other.Handler = mark, state, "h"
	if where == "handler" {
		bad.Does, other.Does = does, does
	} else {
		bad.Callbacks = map[string]string{where: does}
		other.Callbacks = bad.Callbacks
	}
	for _, c := range []driver.Command{bad, good, other} {
		p.must(c)
	}
	p.must(driver.Command{Do: driver.AddHandler, Name: bad.Name, Handler: "second"})
	p.must(driver.Command{Do: driver.WaitForSync, Name: good.Name})
	if where == "invalid" {
		s.put(s.prefix+"/invalid", "{")
	}
	value := fmt.Sprintf("%q", mark)
	s.put(key, value)
	s.awaitValue(p, good.Name, key, value)
	if kind := map[string]string{"interruption": driver.Interrupted, "invalid": driver.Invalid}[where]; kind != "" {
		p.awaitLines(1, bad.Name, kind)
	}
	if where != "decode" {
		s.awaitValue(p, bad.Name, key, value)
		s.awaitValue(p, other.Name, key, value)
		p.await("the second handler gets the object", func(lines []driver.Line) bool { return called(lines, bad.Name, "second", key) > 0 })
		if does != driver.Hang {
			p.must(driver.Command{Do: driver.Close, Name: other.Name})
			text, err := os.ReadFile(state)
			if err != nil || !strings.Contains(string(text), mark) {
				s.Errorf("%s does %s: the state file lacks the newest object: %v", where, does, err)
			}
		}
	}
	if ended := append(p.about(bad.Name, driver.Ended), p.about(good.Name, driver.Ended)...); len(ended) > 0 {
		s.Errorf("%s does %s: an informer has ended: %+v", where, does, ended)
	}
	if where == "invalid" {
		if _, _, err := s.config.Delete(s.Context(), s.prefix+"/invalid"); err != nil {
			s.Fatal(err)
		}
	}
}

func testClose(s *scene) {
	s.put(s.prefix+"/a", "1")
	for _, does := range []string{driver.CloseItself, driver.CloseClient} {
		p := s.start()
		p.connect(s.server)
		c := s.informer("i")
		c.Handler, c.Does = "h", does
		p.must(c)
		p.awaitCall("i", "h", s.prefix+"/a", 1)
		p.awaitLines(1, "i", driver.Ended)
		p.must(driver.Command{Do: driver.Close, Name: "i"})
		p.must(driver.Command{Do: driver.Close, Name: "i"})
		closeAgain(p)

		p.connect(s.server)
		p.must(driver.Command{Do: driver.Watch, Name: "w", Prefix: s.prefix, BookmarkMillis: 1000, Does: does})
		p.awaitLines(1, "w", driver.Ended)
		p.must(driver.Command{Do: driver.Close, Name: "w"})
		closeAgain(p)
	}
	// A handler that never returns gets a signal, and does not keep close from returning.
	p := s.start()
	p.connect(s.server)
	c := s.informer("i")
	c.Handler, c.Does = "h", driver.Hang
	p.must(c)
	p.awaitCall("i", "h", s.prefix+"/a", 1)
	closing := p.begin(driver.Command{Do: driver.Close, Name: "i"})
	p.awaitLines(1, "i", driver.Signalled)
	if l := closing.wait(); l.Code != "" {
		s.Errorf("close: %+v", l)
	}
	if l := p.do(driver.Command{Do: driver.Close}); l.Code != "" {
		s.Errorf("close the client: %+v", l)
	}
}

// closeAgain closes a client twice. In Go, the second call says that the client is closed.
func closeAgain(p *clientProgram) {
	p.s.Helper()
	for range 2 {
		if l := p.do(driver.Command{Do: driver.Close}); l.Code != "" && l.Code != driver.Closed {
			p.s.Errorf("close the client: %+v", l)
		}
	}
}

func testAfterClose(s *scene) {
	p := s.start()
	p.connect(s.server)
	s.put(s.prefix+"/a", "1")
	p.must(driver.Command{Do: driver.Get, Key: s.prefix + "/a"})
	c := s.informer("before")
	p.must(c)
	p.must(driver.Command{Do: driver.WaitForSync, Name: "before"})
	p.must(driver.Command{Do: driver.Close})
	for _, c := range []driver.Command{
		{Do: driver.Get, Key: "a"},
		{Do: driver.List},
		{Do: driver.Count},
		{Do: driver.Put, Key: "a", Value: "1"},
		{Do: driver.Delete, Key: "a"},
		{Do: driver.Transact, Key: "a", Value: "1"},
		{Do: driver.Update, Key: "a", Value: "1"},
		{Do: driver.WaitForSync, Name: "before"},
	} {
		if l := p.do(c); l.Code != driver.Closed {
			s.Errorf("%s: %+v, want a closed error", c.Do, l)
		}
	}
	for _, c := range []driver.Command{{Do: driver.Watch, Name: "w", Prefix: s.prefix, BookmarkMillis: 1000}, s.informer("i")} {
		if l := p.do(c); l.Code == driver.Closed {
			continue // it cannot be made
		}
		if got := p.awaitLines(1, c.Name, driver.Ended); got[0].Code != driver.Closed && got[0].Code != "" {
			s.Errorf("%s: %+v, want a closed error", c.Do, got[0])
		}
	}
}

func testBadValue(s *scene) {
	key := s.prefix + "/a"
	s.put(key, "1")
	p := s.start()
	p.connect(s.server)
	c := s.informer("i")
	c.Handler = "h"
	p.must(c)
	p.must(driver.Command{Do: driver.WaitForSync, Name: "i"})
	s.put(key, "{")
	s.put(s.prefix+"/never", "{")
	for _, k := range []string{key, s.prefix + "/never"} {
		p.await(k+" is invalid", func(lines []driver.Line) bool {
			return slices.ContainsFunc(about(lines, "i", driver.Invalid), func(l driver.Line) bool { return l.Key == k })
		})
	}
	state := p.must(driver.Command{Do: driver.State, Name: "i"}).Objects
	if o := state[key]; o.Value != "1" || !o.Invalid || len(state) != 1 {
		s.Errorf("got %+v, want the last good value, marked invalid", state)
	}
	if n := len(p.about("i", driver.Called)); n != 1 {
		s.Errorf("the handler was called %d times", n)
	}
	s.put(key, "2")
	if o := s.awaitValue(p, "i", key, "2"); o.Invalid {
		s.Error("a good value is marked invalid")
	}
}

func testStateFile(s *scene) {
	key := s.prefix + "/a"
	s.put(key, `"first"`)
	dir := s.TempDir()
	path := filepath.Join(dir, "state")
	p := s.start()
	p.connect(s.server)
	c := s.informer("i")
	c.State = path
	p.must(c)
	p.must(driver.Command{Do: driver.WaitForSync, Name: "i"})
	p.must(driver.Command{Do: driver.Close, Name: "i"})
	stat := func() (os.FileInfo, *syscall.Stat_t) {
		info, err := os.Stat(path)
		if err != nil {
			s.Fatal(err)
		}
		return info, info.Sys().(*syscall.Stat_t)
	}
	info, file := stat()
	if info.Mode() != 0o600 {
		s.Errorf("the file has the mode %v", info.Mode())
	}
	if err := os.Chmod(path, 0o640); err != nil {
		s.Fatal(err)
	}
	root := os.Getuid() == 0
	if root {
		if err := os.Chown(path, 12345, 12346); err != nil {
			s.Fatal(err)
		}
	}

	// Many changes are saved at most every 5 s.
	c.Name = "j"
	p.must(c)
	p.must(driver.Command{Do: driver.WaitForSync, Name: "j"})
	var saves []time.Time
	for i := 0; len(saves) < 2; i++ {
		s.put(key, fmt.Sprintf("%q", fmt.Sprint("change ", i)))
		if info, now := stat(); now.Ino != file.Ino {
			file = now
			saves = append(saves, info.ModTime())
		}
	}
	// On a busy machine, the first save may begin late.
	if between := saves[1].Sub(saves[0]); between < 4*time.Second {
		s.Errorf("the file is written twice within %v", between)
	}
	s.put(key, `"the last one"`)
	s.awaitValue(p, "j", key, `"the last one"`)
	p.must(driver.Command{Do: driver.Close, Name: "j"})
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "the last one") {
		s.Errorf("the file lacks the last change: %v", err)
	}
	if info, file := stat(); info.Mode() != 0o640 || root && (file.Uid != 12345 || file.Gid != 12346) {
		s.Errorf("the file has the mode %v, owner %d and group %d after it was replaced, want those from before", info.Mode(), file.Uid, file.Gid)
	}
	if root {
		s.keepsForeignFile(path)
	}

	// What is not a regular file stays what it is. Nothing waits for the writer of a FIFO.
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		s.Fatal(err)
	}
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		s.Fatal(err)
	}
	for i, odd := range []string{fifo, folder, s.device(dir)} {
		before, err := os.Lstat(odd)
		if err != nil {
			s.Fatal(err)
		}
		c.Name, c.State = fmt.Sprint("odd", i), odd
		if l := p.do(c); l.Code == "" {
			if l := p.do(driver.Command{Do: driver.WaitForSync, Name: c.Name}); l.Code == "" && len(p.about(c.Name, driver.Warned)) == 0 {
				s.Errorf("%s is accepted as a state file", odd)
			}
			p.do(driver.Command{Do: driver.Close, Name: c.Name})
		}
		if after, err := os.Lstat(odd); err != nil || after.Mode() != before.Mode() {
			s.Errorf("%s has become %v: %v", odd, after, err)
		}
	}
}

// device returns a device like /dev/null in a folder. A program without the rights of root gets a link to /dev/null, which
// only root could replace.
func (s *scene) device(folder string) string {
	s.Helper()
	path := filepath.Join(folder, "null")
	err := syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|3) // the number of /dev/null
	if err != nil {
		err = os.Symlink(os.DevNull, path)
	}
	if err != nil {
		s.Fatal(err)
	}
	return path
}

// keepsForeignFile runs a program that may write a file, but not give it away. It keeps the file of another user.
func (s *scene) keepsForeignFile(path string) {
	s.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	p := s.startIn([]string{"setpriv", "--bounding-set", "-chown", "--"})
	p.connect(s.server)
	c := s.informer("foreign")
	c.State = path
	p.must(c)
	p.must(driver.Command{Do: driver.WaitForSync, Name: c.Name})
	s.put(s.prefix+"/foreign", "1")
	s.awaitValue(p, c.Name, s.prefix+"/foreign", "1")
	p.do(driver.Command{Do: driver.Close, Name: c.Name})
	p.awaitLines(1, c.Name, driver.Warned)
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		s.Errorf("the file of another user was replaced: %v", err)
	}
}
