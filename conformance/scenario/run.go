// Package scenario has what a client of fanoutd must survive, as scenarios of a scripted server.
package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/fanoutd/fanoutd/conformance/load"
	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Scenario is what a client must do in one situation.
type Scenario struct {
	Name string
	Must string // what the client must do
	Why  string
	run  func(*run)

	// Scenarios that do not exist in all variants.
	subscribeOnly, informerOnly, watchOnly bool

	// reports means that the client must report what it has applied.
	reports bool
}

// Variant is a way to run a scenario.
type Variant struct {
	Subscribe bool // the server has Subscribe
	Informer  bool // the test client uses informers
}

// Variants are all ways to run scenarios.
var Variants = []Variant{{false, false}, {true, false}, {false, true}, {true, true}}

// String returns the variant as in "subscribe/informer".
func (v Variant) String() string {
	carrier, kind := "watch", "watch"
	if v.Subscribe {
		carrier = "subscribe"
	}
	if v.Informer {
		kind = "informer"
	}
	return carrier + "/" + kind
}

// Has reports whether the scenario exists in a variant.
func (s Scenario) Has(v Variant) bool {
	return (!s.subscribeOnly || v.Subscribe) && (!s.informerOnly || v.Informer) && (!s.watchOnly || !v.Informer)
}

// Variants returns the pattern of the variants in which the scenario exists, such as "subscribe/*".
func (s Scenario) Variants() string {
	carrier, kind := "*", "*"
	if s.subscribeOnly {
		carrier = "subscribe"
	}
	switch {
	case s.informerOnly:
		kind = "informer"
	case s.watchOnly:
		kind = "watch"
	}
	return carrier + "/" + kind
}

// IsSimple reports whether the scenario, in this variant, needs only what a simple client has: the method Watch, and
// neither informers nor reports.
func (s Scenario) IsSimple(v Variant) bool { return !v.Subscribe && !v.Informer && !s.reports }

// Patience bounds each wait, unless the settings have another bound. Only a broken client reaches it, also on a busy
// machine.
const Patience = 5 * time.Minute

// Settings are the settings of a run.
type Settings struct {
	Command  []string      // the test client
	Patience time.Duration // 0: Patience

	// Exact means that the client gets no more time on a busy machine.
	Exact bool
}

// Run runs a scenario, and returns what the client does wrong, with its log.
func (s Scenario) Run(ctx context.Context, settings Settings, v Variant) (err error) {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return fmt.Errorf("make a folder for the state files: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	server, err := script.NewServer(v.Subscribe)
	if err != nil {
		return err
	}
	defer server.Stop()
	if settings.Patience == 0 {
		settings.Patience = Patience
	}
	r := &run{
		Variant: v, settings: settings, ctx: ctx, server: server, dir: dir,
		histories: map[string]*script.History{}, allowed: map[string]string{},
		states: map[string]state{}, handled: map[string]map[string]int64{}, synced: map[string]bool{}, fresh: map[string]bool{},
	}
	defer func() {
		if r.program != nil {
			r.program.Kill()
			if log := r.program.Log(); err != nil && log != "" {
				err = fmt.Errorf("%w\nthe test client wrote to its standard error:\n%s", err, log)
			}
		}
	}()
	return r.do(s)
}

// failure is what fail panics with.
type failure struct{ error }

// run is a scenario that runs. Its methods panic with a failure when the client does something wrong.
type run struct {
	Variant
	settings  Settings
	ctx       context.Context
	server    *script.Server
	dir       string
	histories map[string]*script.History // by epoch
	program   *testclient.Program
	seen      int                         // lines of the program that were checked
	states    map[string]state            // the latest state of each watch
	handled   map[string]map[string]int64 // what the handler of each informer has: revisions by key
	synced    map[string]bool             // the informers that are synced
	fresh     map[string]bool             // the informers whose copy is not stale
	allowed   map[string]string           // other lines that a watch may print, by its name
}

// state is a copy that the client has shown.
type state struct {
	epoch    string
	revision int64
}

func (r *run) do(s Scenario) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = f.error
		default:
			panic(f)
		}
	}()
	r.start()
	s.run(r)
	r.close()
	return nil
}

func (r *run) fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// within calls a function that waits for the server, with the patience of the run. It fails at once when the test client
// ends.
func (r *run) within(what string, do func(ctx context.Context) error) {
	r.bounded(what, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		done := r.program.Done()
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			select {
			case <-done:
				cancel()
			case <-ctx.Done():
			}
		}()
		err := do(ctx)
		cancel()
		<-watched
		if err != nil && isClosed(done) {
			r.checkRest() // it may have said why
			return r.program.Ended()
		}
		return err
	})
}

// bounded calls a function with the patience of the run.
func (r *run) bounded(what string, do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.settings.Patience)
	defer cancel()
	if err := do(ctx); err != nil {
		r.fail("%s: %w; the client shows %v", what, err, r.states)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// scaled returns how long the client may take for what takes a duration on an idle machine.
func (r *run) scaled(d time.Duration) time.Duration {
	if r.settings.Exact {
		return d
	}
	return load.Scale(d)
}

// untilGone waits until the client has ended a watch, or has gone.
func (r *run) untilGone(what string, w *script.Watch) {
	r.within(what, func(ctx context.Context) error {
		select {
		case <-w.Gone():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// pass lets time pass.
func (r *run) pass(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.program.Done():
		r.checkRest()
		r.fail("%w", r.program.Ended())
	case <-r.ctx.Done():
		r.fail("%w", context.Cause(r.ctx))
	}
}

// start starts the test client.
func (r *run) start() {
	var err error
	if r.program, err = testclient.Start(r.settings.Command); err != nil {
		r.fail("%w", err)
	}
	r.seen = 0
	clear(r.states)
	clear(r.handled)
	clear(r.synced)
	clear(r.fresh)
	r.server.ForgetSynced()
}

// close ends the test client, which must close its connections.
func (r *run) close() {
	if err := r.program.Close(); err != nil {
		r.fail("%w", err)
	}
	r.checkRest()
	r.server.HangUp()
	r.bounded("all requests end with the client", r.server.AwaitIdle)
}

// restart ends the test client and starts another one.
func (r *run) restart() {
	r.close()
	r.start()
}

// checkRest checks the lines that were printed and not looked at.
func (r *run) checkRest() {
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	for {
		lines, err := r.program.Lines(ctx, r.seen)
		if err != nil {
			if fault := r.program.Fault(); fault != nil {
				r.fail("%w", fault)
			}
			return // there are no more
		}
		for _, l := range lines {
			r.check(l)
		}
	}
}

// history returns the history of an epoch.
func (r *run) history(epoch string) *script.History {
	h := r.histories[epoch]
	if h == nil {
		h = script.NewHistory(epoch)
		r.histories[epoch] = h
	}
	return h
}

// command sends a command to the test client.
func (r *run) command(c testclient.Command) {
	if err := r.program.Send(c); err != nil {
		r.fail("%w", err)
	}
}

// bookmarks is the interval of bookmarks of most watches: long enough that no silence of a scenario counts.
const bookmarks = time.Minute

// option changes a watch command.
type option func(*testclient.Command)

// follow makes the client follow a watch.
func (r *run) follow(name string, options ...option) {
	c := testclient.Command{
		Do: testclient.Watch, Name: name, Servers: []string{r.server.Address()}, Informer: r.Informer,
		BookmarkMillis: int(bookmarks / time.Millisecond),
	}
	for _, o := range options {
		o(&c)
	}
	r.command(c)
}

// accept returns the next watch of this name that the client opens, and checks its request.
func (r *run) accept(name string) *script.Watch {
	return r.acceptAs("the client opens watch "+name, name)
}

// acceptAs is accept with a text for the error.
func (r *run) acceptAs(what, name string) *script.Watch {
	w := r.take(what, name)
	if w.Request.GetFromNow() != nil {
		r.fail("watch %s: the client begins at the present, although it needs the state", name)
	}
	return w
}

// take is acceptAs for a watch that may begin at the present.
func (r *run) take(what, name string) (w *script.Watch) {
	r.within(what, func(ctx context.Context) (err error) {
		for w == nil && err == nil {
			r.checkRest() // the client may have given up
			slice, cancel := context.WithTimeout(ctx, lookInterval)
			w, err = r.server.Accept(slice, name)
			if ctx.Err() == nil && slice.Err() != nil {
				err = nil
			}
			cancel()
		}
		return err
	})
	switch {
	case w.Request.GetResource() != resource:
		r.fail("watch %s: the resource is %q", name, w.Request.GetResource())
	case w.Request.GetBookmarkInterval() == nil:
		r.fail("watch %s: the client does not ask for bookmarks", name)
	case w.Request.GetAfter() != nil && w.Request.GetConsistency() != nil:
		r.fail("watch %s: the client asks for a consistency together with a position", name)
	}
	return w
}

// tell sends a command about a watch, and waits until the test client has obeyed.
func (r *run) tell(do, name, key string) {
	r.command(testclient.Command{Do: do, Name: name, Key: key})
	r.untilLine("the test client obeys "+do, func(l testclient.Line) bool { return l.Name == name && l.What == testclient.Done })
}

// lookInterval is how often a run that waits for the server looks at the output of the test client.
const lookInterval = 200 * time.Millisecond

// resource is the name of the resource of all watches.
const resource = "config"

// open makes the client follow a watch, which must begin without a position.
func (r *run) open(name string, options ...option) *script.Watch {
	r.follow(name, options...)
	w := r.accept(name)
	r.beginsAfter(w, nil)
	return w
}

// sync opens a watch and sends it a snapshot of the present.
func (r *run) sync(h *script.History, name string, options ...option) *script.Watch {
	w := r.open(name, options...)
	w.Send(h.Reset(name, h.Revision())...)
	r.expect(name, h.Position(h.Revision()))
	return w
}

// beginsAfter checks where a watch begins. The revision 0 and nil stand for no position.
func (r *run) beginsAfter(w *script.Watch, allowed ...*fanoutv1.Position) {
	got := w.Request.GetAfter()
	for _, p := range allowed {
		if got.GetRevision() == p.GetRevision() && (p.GetRevision() == 0 || got.GetEpoch() == p.GetEpoch()) {
			return
		}
	}
	var want []string
	for _, p := range allowed {
		want = append(want, place(p))
	}
	r.fail("watch %s begins after %s, want one of %v; the client has shown %s, and was sent %s",
		w.Name(), place(got), want, place(r.position(w.Name())), r.server.LastSent(w.Name()))
}

// place returns a position in a short form.
func place(p *fanoutv1.Position) string {
	if p.GetRevision() == 0 {
		return "<nil>"
	}
	return fmt.Sprint(state{p.GetEpoch(), p.GetRevision()})
}

// resume answers a watch as an honest server would: with what has happened after its position.
func (r *run) resume(h *script.History, w *script.Watch) {
	now := h.Revision()
	w.Send(h.From(w.Name(), w.Request.GetAfter())...)
	r.expect(w.Name(), h.Position(now))
}

// expect waits until the client shows the state at a position. Every state on the way must be one that the
// history has.
func (r *run) expect(name string, at *fanoutv1.Position) {
	want := state{at.GetEpoch(), at.GetRevision()}
	r.until(fmt.Sprintf("watch %s shows the state at %v", name, want), func() bool { return r.states[name] == want })
}

// expectLine waits until a watch prints a line other than a state.
func (r *run) expectLine(name, what string) (found testclient.Line) {
	r.allowed[name] = what
	r.untilLine(fmt.Sprintf("watch %s is %s", name, what), func(l testclient.Line) bool {
		found = l
		return l.Name == name && l.What == what
	})
	return found
}

// until reads lines until a condition holds.
func (r *run) until(what string, is func() bool) {
	if is() {
		return
	}
	r.untilLine(what, func(testclient.Line) bool { return is() })
}

func (r *run) untilLine(what string, is func(testclient.Line) bool) {
	r.bounded(what, func(ctx context.Context) error {
		for {
			lines, err := r.program.Lines(ctx, r.seen)
			if err != nil {
				return err
			}
			for _, l := range lines {
				r.check(l)
				if is(l) {
					return nil
				}
			}
		}
	})
}

// check checks a line, and counts it as seen.
func (r *run) check(l testclient.Line) {
	r.seen++
	switch {
	case l.What == testclient.State:
		r.checkState(l)
	case l.What == testclient.Handler:
		r.checkHandler(l)
	case l.What == testclient.Synced, l.What == testclient.Stale && !l.Stale:
		if !r.server.HasSynced(l.Name) {
			r.fail("watch %s counts as synced or as not stale, and the server has sent no SYNCED", l.Name)
		}
		r.synced[l.Name] = r.synced[l.Name] || l.What == testclient.Synced
		r.fresh[l.Name] = r.fresh[l.Name] || l.What == testclient.Stale
	case l.What == testclient.Stale:
		r.fresh[l.Name] = false
	case l.What == testclient.Done:
	case l.What == r.allowed[l.Name]:
	case l.What == testclient.Failed:
		r.fail("watch %s is failed with %q and the reason %q", l.Name, l.Code, l.Reason)
	default:
		r.fail("watch %s is %s", l.Name, l.What)
	}
}

func (r *run) checkState(l testclient.Line) {
	got := state{l.Epoch, l.Revision}
	h := r.histories[l.Epoch]
	if h == nil || l.Revision < 1 || l.Revision > h.Revision() {
		r.fail("watch %s shows a state at the position %v, which does not exist", l.Name, got)
	}
	want := h.State(l.Name, l.Revision)
	if !maps.EqualFunc(want, l.Objects, isShown) {
		r.fail("watch %s shows %s at %v, want %s", l.Name, show(l.Objects), got, show(shownAs(want)))
	}
	if old := r.states[l.Name]; old.epoch == got.epoch && old.revision > got.revision {
		r.fail("watch %s goes back from %v to %v", l.Name, old, got)
	}
	r.states[l.Name] = got
}

// checkHandler checks that a handler gets add, then any number of update, then delete, of objects that exist.
func (r *run) checkHandler(l testclient.Line) {
	has := r.handled[l.Name]
	if has == nil {
		has = map[string]int64{}
		r.handled[l.Name] = has
	}
	wrote := false
	for _, h := range r.histories {
		wrote = wrote || h.Wrote(l.Key, l.Revision)
	}
	_, known := has[l.Key]
	switch {
	case !wrote:
		r.fail("the handler of %s gets %s of %s at the revision %d, which did not write it", l.Name, l.Type, l.Key, l.Revision)
	case known == (l.Type == testclient.Add):
		r.fail("the handler of %s gets %s of %s, and has %v", l.Name, l.Type, l.Key, has)
	case l.Rejected:
	case l.Type == testclient.Delete:
		delete(has, l.Key)
	default:
		has[l.Key] = l.Revision
	}
}

// isShown reports whether a test client shows an object as it is. Some clients do not distinguish text from bytes.
func isShown(want *fanoutv1.Object, got *testclient.Object) bool {
	w := shown(want)
	if got == nil {
		got = &testclient.Object{}
	}
	return (w.Value() == nil) == (got.Value() == nil) && bytes.Equal(w.Value(), got.Value()) &&
		w.ContentType == got.ContentType && maps.Equal(w.Labels, got.Labels)
}

func shownAs(objects map[string]*fanoutv1.Object) map[string]*testclient.Object {
	all := map[string]*testclient.Object{}
	for key, o := range objects {
		all[key] = shown(o)
	}
	return all
}

func shown(o *fanoutv1.Object) *testclient.Object {
	var value []byte
	switch v := o.GetValue().(type) {
	case *fanoutv1.Object_Text:
		value = append([]byte{}, v.Text...)
	case *fanoutv1.Object_Data:
		value = v.Data
	}
	return testclient.NewObject(value, o.GetContentType(), o.GetLabels())
}

// show returns objects in a short form.
func show(objects map[string]*testclient.Object) string {
	texts := map[string]string{}
	for key, o := range objects {
		texts[key] = o.String()
	}
	return fmt.Sprint(texts)
}

// stateFile returns the path of a state file.
func (r *run) stateFile(name string) string { return filepath.Join(r.dir, name) }
