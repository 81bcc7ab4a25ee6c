// Command goclient is the test client of package client. With -break it does one thing wrong, to show that
// the scenarios notice.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

func main() {
	fault := flag.String("break", "", "do this wrong: "+strings.Join(faultNames(), ", "))
	flag.Parse()
	if err := run(*fault); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run follows the commands until the input ends.
func run(fault string) error {
	if fault != "" && faults[fault] == nil {
		return fmt.Errorf("unknown fault %q", fault)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{
		ctx: ctx, fault: faults[fault], clients: map[string]*client.Client{}, watches: map[string]*follower{}, out: json.NewEncoder(os.Stdout),
	}
	defer func() {
		cancel()
		for _, c := range p.clients {
			c.Close()
		}
		p.running.Wait()
	}()
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var c testclient.Command
		if err := json.Unmarshal(input.Bytes(), &c); err != nil {
			return fmt.Errorf("command %q: %w", input.Text(), err)
		}
		if err := p.do(c); err != nil {
			return fmt.Errorf("command %q: %w", input.Text(), err)
		}
	}
	return input.Err()
}

// program is the state of the test client.
type program struct {
	ctx     context.Context
	fault   *fault // nil: none
	clients map[string]*client.Client
	watches map[string]*follower
	running sync.WaitGroup

	mu  sync.Mutex
	out *json.Encoder // guarded by mu
}

func (p *program) do(c testclient.Command) error {
	if c.Do == testclient.Watch {
		return p.watch(c)
	}
	f := p.watches[c.Name]
	if f == nil {
		return errors.New("there is no such watch")
	}
	switch c.Do {
	case testclient.Stop:
		f.stop()
		return nil
	case testclient.Pause:
		f.gate <- struct{}{}
	case testclient.Continue:
		<-f.gate
	case testclient.Reject:
		f.rejected.Store(c.Key, true)
	case testclient.Accept:
		f.rejected.Delete(c.Key)
	default:
		return errors.New("unknown command")
	}
	p.print(testclient.Line{Name: c.Name, What: testclient.Done})
	return nil
}

// follower follows a watch.
type follower struct {
	*program
	command  testclient.Command
	stop     context.CancelFunc
	gate     chan struct{}   // full while the application is paused; it has one place
	stopped  <-chan struct{} // closed by stop
	rejected sync.Map        // the keys that the application rejects
	previous testclient.Line
}

func (p *program) watch(c testclient.Command) error {
	conn, err := p.client(c)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(p.ctx)
	f := &follower{program: p, command: c, stop: stop, gate: make(chan struct{}, 1), stopped: ctx.Done()}
	p.watches[c.Name] = f
	follow := f.followWatch
	if c.Informer {
		follow = f.followInformer
	}
	if p.fault.is("position-only") && c.State != "" {
		follow = f.followPosition
	}
	resource := conn.Resource("config")
	p.running.Go(func() {
		defer stop()
		err := follow(ctx, resource)
		var refused *client.Error
		switch {
		case p.ctx.Err() != nil: // the program ends
		case ctx.Err() != nil:
			p.print(testclient.Line{Name: c.Name, What: testclient.Stopped})
		case errors.As(err, &refused):
			p.print(testclient.Line{Name: c.Name, What: testclient.Failed, Code: code.Code(refused.Code).String(), Reason: string(refused.Reason)})
		default:
			p.print(testclient.Line{Name: c.Name, What: testclient.Failed, Code: fmt.Sprint(err)})
		}
	})
	return nil
}

// client returns the client object of a watch.
func (p *program) client(c testclient.Command) (*client.Client, error) {
	name := c.Client
	if p.fault.is("no-sharing") {
		name = c.Name
	}
	if found := p.clients[name]; found != nil {
		return found, nil
	}
	options := []client.Option{client.WithInsecure(), client.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil)))}
	switch {
	case c.TokenFile == "":
	case p.fault.is("fixed-token"):
		token, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return nil, err
		}
		options = append(options, client.WithToken(strings.TrimSpace(string(token))))
	default:
		options = append(options, client.WithTokenFile(c.TokenFile))
	}
	if p.fault.is("no-pings") {
		options = append(options, client.WithKeepalive(time.Hour))
	}
	conn, err := client.New(strings.Join(c.Servers, ","), append(options, p.fault.options()...)...)
	if err == nil {
		p.clients[name] = conn
	}
	return conn, err
}

func (p *program) print(l testclient.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(l) // fails if the kit has gone; then the input ends, too
}

// options returns the options that watches and informers have in common.
func (f *follower) options() []client.DeliveryOption {
	options := []client.DeliveryOption{client.BookmarkInterval(time.Duration(f.command.BookmarkMillis) * time.Millisecond)}
	if f.command.Latest {
		options = append(options, client.Latest())
	}
	return options
}

// selectors returns the selectors of the watch.
func (f *follower) selectors() []client.Selection {
	var all []client.Selection
	if f.command.LabelSelector != "" {
		all = append(all, client.Labels(f.command.LabelSelector))
	}
	if f.command.FieldSelector != "" {
		all = append(all, client.Fields(f.command.FieldSelector))
	}
	return all
}

// followWatch applies the events of a watch to a copy.
func (f *follower) followWatch(ctx context.Context, r *client.Resource) error {
	options := []client.WatchOption{client.Prefix(f.command.Name)}
	for _, o := range f.options() {
		options = append(options, o)
	}
	for _, o := range f.selectors() {
		options = append(options, o)
	}
	if f.command.FromNow {
		options = append(options, client.FromNow())
	}
	if f.command.EveryEvent {
		options = append(options, client.EveryEvent())
	}
	return f.apply(r.Watch(ctx, options...))
}

// apply applies the updates of a watch to a copy, and prints it.
func (f *follower) apply(updates func(func(*client.Update, error) bool)) error {
	copied := map[string]*testclient.Object{}
	for u, err := range updates {
		if err != nil {
			return err
		}
		f.await()
		if u.Phase == client.PhaseReset && !f.fault.is("keep-replaced") {
			clear(copied)
		}
		for _, e := range u.Events {
			_, known := copied[e.Object.Key]
			switch {
			case f.fault.is("strict-events") && e.Type == client.Modified && !known:
			case e.Type == client.Deleted:
				if f.fault.is("strict-deletes") && !known {
					return fmt.Errorf("deleted %s, which is not there", e.Object.Key)
				}
				delete(copied, e.Object.Key)
			default:
				copied[e.Object.Key] = f.object(e.Object)
			}
		}
		if u.Phase.Complete() || f.fault.is("early") {
			f.show(u.Position, copied)
		}
	}
	return nil
}

// await waits while the application is paused, and not after the end of the watch.
func (f *follower) await() {
	if !f.fault.is("eager-reports") { // what is handed over counts as applied
		f.pass()
	}
}

// pass goes through the gate.
func (f *follower) pass() {
	select {
	case f.gate <- struct{}{}:
		<-f.gate
	case <-f.stopped:
	}
}

// object returns what is shown of an object.
func (f *follower) object(o *client.Object) *testclient.Object {
	value := o.Value
	if value == nil && f.fault.is("no-absence") {
		value = []byte{}
	}
	shown := testclient.NewObject(value, o.ContentType, o.Labels)
	switch {
	case f.fault.is("no-labels"):
		shown.Labels = nil
	case f.fault.is("only-text"):
		shown.Data = nil
	}
	return shown
}

func (f *follower) show(at client.Position, objects map[string]*testclient.Object) {
	l := testclient.Line{Name: f.command.Name, What: testclient.State, Epoch: at.Epoch, Revision: at.Revision, Objects: objects}
	f.print(l)
	if f.fault.is("go-back") {
		if f.previous.Revision > 0 {
			f.print(f.previous)
		}
		l.Objects = maps.Clone(objects)
		f.previous = l
	}
}
