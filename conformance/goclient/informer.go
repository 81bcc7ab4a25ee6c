package main

import (
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

// lookInterval is how often the test client looks whether the copy of an informer has changed. Handlers
// are called for objects and not for positions.
const lookInterval = 10 * time.Millisecond

// maxStateBytes is the largest state that is saved.
const maxStateBytes = 64 << 20

// followInformer shows the copy of an informer.
func (f *follower) followInformer(ctx context.Context, r *client.Resource) error {
	options := []client.InformerOption{client.Prefix(f.command.Name)}
	for _, o := range f.options() {
		options = append(options, o)
	}
	for _, o := range f.selectors() {
		options = append(options, o)
	}
	if f.command.State != "" && !f.fault.is("no-state") {
		options = append(options, client.LastKnownGood(f.command.State, maxStateBytes))
	}
	if f.fault.is("in-place") {
		defer f.writeInPlace()()
	}
	if f.fault.is("state-elsewhere") {
		f.restore()
		defer f.back()
	}
	informer := client.NewInformer(r, client.ObjectDecoder(), options...)
	informer.AddHandler(client.Handler[*client.Object]{
		Add:    func(item client.Item[*client.Object]) error { return f.take(testclient.Add, item.Object) },
		Update: func(_, item client.Item[*client.Object]) error { return f.take(testclient.Update, item.Object) },
		Delete: func(old client.Item[*client.Object]) error { return f.take(testclient.Delete, old.Object) },
		Error: func(o *client.Object, _ error) {
			if o == nil && !f.fault.is("silent-damage") {
				f.print(testclient.Line{Name: f.command.Name, What: testclient.Damaged})
			}
		},
	})
	done := make(chan error, 1)
	f.running.Go(func() { done <- informer.Run(ctx) })
	f.running.Go(func() {
		if f.fault.is("early-sync") || informer.WaitForSync(ctx) == nil {
			f.print(testclient.Line{Name: f.command.Name, What: testclient.Synced})
		}
	})
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	stale := true
	for shown := (client.Position{}); ; {
		shown = f.look(informer.Lister(), shown)
		select {
		case <-ticker.C:
			if was := stale; (informer.Lister().Stale() && !f.fault.is("never-stale")) != was {
				stale = !was
				f.print(testclient.Line{Name: f.command.Name, What: testclient.Stale, Stale: stale})
			}
		case err := <-done:
			f.look(informer.Lister(), shown)
			return err
		}
	}
}

// take is what the handler does with a change.
func (f *follower) take(change string, o *client.Object) error {
	f.pass()
	_, rejected := f.rejected.Load(o.Key)
	if f.fault.is("no-deletes") && change == testclient.Delete {
		return nil
	}
	f.print(testclient.Line{
		Name: f.command.Name, What: testclient.Handler, Type: change, Key: o.Key, Revision: o.ModRevision, Rejected: rejected,
	})
	if rejected {
		return errors.New("the application rejects the object")
	}
	return nil
}

// look shows the copy if its position has changed, and returns the position.
func (f *follower) look(copied client.Lister[*client.Object], shown client.Position) client.Position {
	for {
		at := copied.Position()
		objects := map[string]*testclient.Object{}
		for item := range copied.List("") {
			objects[item.Object.Key] = f.object(item.Object)
		}
		switch {
		case copied.Position() != at: // it has changed meanwhile
		case at == shown || at.Revision == 0:
			return shown
		default:
			f.show(at, objects)
			return at
		}
	}
}
