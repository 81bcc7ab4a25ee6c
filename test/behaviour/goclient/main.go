// Command goclient runs package client for the tests of test/behaviour. Package driver describes its commands.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/behaviour/driver"
)

func main() {
	p := &program{clients: map[string]*client.Client{}, followers: map[string]*follower{}, out: json.NewEncoder(os.Stdout)}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		var c driver.Command
		if err := json.Unmarshal(input.Bytes(), &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		do, err := p.begin(c)
		if err != nil || do == nil {
			p.answer(c, driver.Line{}, err)
			continue
		}
		go func() {
			line, err := do()
			p.answer(c, line, err)
		}()
	}
}

// program is the state of the program.
type program struct {
	mu        sync.Mutex
	clients   map[string]*client.Client // guarded by mu
	followers map[string]*follower      // guarded by mu
	out       *json.Encoder             // guarded by mu
}

// follower is a watch or an informer.
type follower struct {
	start func() // nil: it runs
	close func()
	sync  func(context.Context) error
	state func() driver.Line
	add   func(driver.Command)
}

func (p *program) print(l driver.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Encode(l); err != nil {
		os.Exit(1) // the test has ended
	}
}

func (p *program) answer(c driver.Command, l driver.Line, err error) {
	l.ID = c.ID
	describe(&l, err)
	p.print(l)
}

// describe adds an error to a line.
func describe(l *driver.Line, err error) {
	if err == nil {
		return
	}
	l.Code, l.Message = driver.Refused, err.Error()
	if e, ok := errors.AsType[*client.Error](err); ok {
		l.Code, l.Reason = canonical(e.Code), string(e.Reason)
		for _, v := range e.Violations {
			l.Violations = append(l.Violations, v.Field+": "+v.Description)
		}
	} else if errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled) {
		l.Code = driver.Closed
	} else if errors.Is(err, context.DeadlineExceeded) {
		l.Code = canonical(codes.DeadlineExceeded)
	}
}

// canonical returns the name of a code in the specification of gRPC.
func canonical(c codes.Code) string {
	var name strings.Builder
	for i, r := range c.String() {
		if i > 0 && r >= 'A' && r <= 'Z' && c != codes.OK {
			name.WriteByte('_')
		}
		name.WriteRune(r)
	}
	return strings.ToUpper(name.String())
}

// begin begins a command. The function that it returns, if any, waits for its end.
func (p *program) begin(c driver.Command) (func() (driver.Line, error), error) {
	p.mu.Lock()
	conn, f := p.clients[c.Client], p.followers[c.Name]
	p.mu.Unlock()
	switch c.Do {
	case driver.NewClient:
		return nil, p.newClient(c)
	case driver.Step:
		return nil, nil // Go has monotonic time, which no program can move
	case driver.Close:
		if c.Name == "" {
			return func() (driver.Line, error) { return driver.Line{}, conn.Close() }, nil
		}
		return func() (driver.Line, error) { f.close(); return driver.Line{}, nil }, nil
	case driver.Start:
		f.start()
		return nil, nil
	case driver.AddHandler:
		f.add(c)
		return nil, nil
	case driver.WaitForSync:
		ctx, cancel := limit(c)
		return func() (driver.Line, error) { defer cancel(); return driver.Line{}, f.sync(ctx) }, nil
	case driver.State:
		return func() (driver.Line, error) { return f.state(), nil }, nil
	case driver.Watch:
		p.watch(c, conn)
		return nil, nil
	case driver.Informer:
		return nil, p.informer(c, conn)
	}
	ctx, cancel := limit(c)
	return func() (driver.Line, error) { defer cancel(); return request(ctx, c, conn.Resource("config")) }, nil
}

// limit returns the context of a command.
func limit(c driver.Command) (context.Context, context.CancelFunc) {
	if c.Millis == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), time.Duration(c.Millis)*time.Millisecond)
}

func (p *program) newClient(c driver.Command) error {
	var opts []client.Option
	if c.Insecure {
		opts = append(opts, client.WithInsecure())
	}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		opts = append(opts, client.WithTLS(&tls.Config{RootCAs: pool}))
	}
	if c.Cert != "" {
		opts = append(opts, client.WithCertificateFiles(c.Cert, c.PrivateKey))
	}
	if c.Token != "" {
		opts = append(opts, client.WithToken(c.Token))
	}
	if c.TokenFile != "" {
		opts = append(opts, client.WithTokenFile(c.TokenFile))
	}
	made, err := client.New(strings.Join(c.Servers, ","), opts...)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients[c.Client] = made
	return nil
}

// request sends a request.
func request(ctx context.Context, c driver.Command, config *client.Resource) (l driver.Line, err error) {
	value := client.Text(c.Value).WithContentType(c.ContentType).WithLabels(c.Labels)
	if c.Odd != "" {
		value = (&client.Object{Key: c.Key}).AsValue() // its value is unknown
	}
	if c.Message != "" {
		config = config.Because(c.Message)
	}
	var puts []client.WriteOption
	var deletes []client.DeleteOption
	if c.Skip {
		puts, deletes = append(puts, client.SkipValidation()), append(deletes, client.SkipValidation())
	}
	switch c.Do {
	case driver.Get:
		var opts []client.ReadOption
		if c.LastChange {
			opts = append(opts, client.LastChange())
		}
		o, err := config.Get(ctx, c.Key, opts...)
		if err != nil {
			return l, err
		}
		l.Object = show(o)
		if o.LastChange != nil {
			l.Entries = []driver.Entry{showChange(*o.LastChange)}
		}
	case driver.List:
		for o, err := range config.List(ctx, client.Prefix(c.Prefix), client.PageSize(c.PageSize)) {
			if err != nil {
				return l, err
			}
			l.Keys = append(l.Keys, o.Key)
		}
	case driver.Count:
		n, err := config.Count(ctx, client.Prefix(c.Prefix))
		l.Count = int(n)
		return l, err
	case driver.History:
		return showHistory(ctx, c, config)
	case driver.RevisionAt:
		at, err := time.Parse(time.RFC3339Nano, c.Time)
		if err != nil {
			return l, err
		}
		l.Revision, err = config.RevisionAt(ctx, client.Prefix(c.Prefix), at)
		return l, err
	case driver.Put:
		_, err = config.Put(ctx, c.Key, value, puts...)
	case driver.Validate:
		err = config.Validate(ctx, c.Key, value)
	case driver.Delete:
		_, _, err = config.Delete(ctx, c.Key, deletes...)
	case driver.Transact:
		_, err = config.Transact(ctx, client.OpPut(c.Key, value, puts...))
	case driver.Update:
		_, err = config.Update(ctx, c.Key, func(*client.Object) (*client.Value, error) {
			v := client.Text(c.Value)
			if c.ContentType != "" {
				v = v.WithContentType(c.ContentType)
			}
			if c.Labels != nil {
				v = v.WithLabels(c.Labels)
			}
			return &v, nil
		}, puts...)
	default:
		err = fmt.Errorf("unknown command %q", c.Do)
	}
	return l, err
}

func showHistory(ctx context.Context, c driver.Command, config *client.Resource) (l driver.Line, err error) {
	opts := []client.HistoryOption{client.HistoryPageSize(c.PageSize)}
	if c.Values {
		opts = append(opts, client.HistoryValues())
	}
	if c.UpTo > 0 {
		opts = append(opts, client.HistoryUpTo(c.UpTo))
	}
	if c.Time != "" {
		at, err := time.Parse(time.RFC3339Nano, c.Time)
		if err != nil {
			return l, err
		}
		opts = append(opts, client.HistoryAt(at))
	}
	for e, err := range config.History(ctx, client.Prefix(c.Prefix), opts...) {
		if err != nil {
			return l, err
		}
		shown := showChange(e.Change)
		shown.Kind, shown.Key, shown.Revision, shown.Replaced = e.Kind.String(), e.Key, e.Revision, e.ReplacedRevision
		shown.Writes, shown.HasTTL = e.TransactionWrites, e.HasTTL
		if e.Object != nil {
			shown.Object = show(e.Object)
		}
		l.Entries = append(l.Entries, shown)
	}
	return l, nil
}

func showChange(c client.Change) driver.Entry {
	return driver.Entry{Author: c.Author, Time: c.Time.Format(time.RFC3339Nano), Message: c.Message}
}

func show(o *client.Object) *driver.Object {
	shown := &driver.Object{Bytes: len(o.Value), ContentType: o.ContentType, Labels: o.Labels, HasTTL: o.HasTTL}
	if len(o.Value) <= 1000 {
		shown.Value = string(o.Value)
	}
	return shown
}

func (p *program) interruption(c driver.Command) client.DeliveryOption {
	return client.OnInterruption(func(err error) {
		l := driver.Line{Name: c.Name, What: driver.Interrupted}
		describe(&l, err)
		p.print(l)
		_ = p.misbehave(context.Background(), c, c.Callbacks["interruption"], nil)
	})
}

func (p *program) watch(c driver.Command, conn *client.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	opts := []client.WatchOption{client.Prefix(c.Prefix), client.BookmarkInterval(time.Duration(c.BookmarkMillis) * time.Millisecond), p.interruption(c)}
	if c.Revision > 0 {
		opts = append(opts, client.After(client.Position{Epoch: c.Epoch, Revision: c.Revision}))
	}
	if c.FromNow {
		opts = append(opts, client.FromNow())
	}
	if c.MinRevision > 0 {
		opts = append(opts, client.MinRevision(c.MinRevision))
	}
	if c.AtRevision > 0 {
		opts = append(opts, client.AtRevision(c.AtRevision))
	}
	if c.EveryEvent {
		opts = append(opts, client.EveryEvent())
	}
	p.follow(c.Name, &follower{close: cancel})
	go func() {
		var end error
		for u, err := range conn.Resource("config").Watch(ctx, opts...) {
			if err != nil {
				end = err
				break
			}
			l := driver.Line{Name: c.Name, What: driver.Updated, Replace: u.Phase == client.PhaseReset, Epoch: u.Position.Epoch, Revision: u.Position.Revision}
			for _, e := range u.Events {
				l.Keys = append(l.Keys, e.Object.Key)
			}
			p.print(l)
			switch c.Does {
			case driver.CloseItself:
				cancel()
			case driver.CloseClient:
				conn.Close()
			}
		}
		p.ended(c, end)
	}()
}

func (p *program) follow(name string, f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers[name] = f
}

func (p *program) ended(c driver.Command, err error) {
	l := driver.Line{Name: c.Name, What: driver.Ended}
	describe(&l, err)
	p.print(l)
}

func (p *program) informer(c driver.Command, conn *client.Client) error {
	ctx, cancel := context.WithCancel(context.Background())
	opts := []client.InformerOption{client.Prefix(c.Prefix), client.BookmarkInterval(time.Duration(c.BookmarkMillis) * time.Millisecond), p.interruption(c)}
	if c.State != "" {
		opts = append(opts, client.LastKnownGood(c.State, 1<<20))
	}
	decode := client.JSONDecoder[any]()
	i := client.NewInformer(conn.Resource("config"), func(o *client.Object) (any, error) {
		v, err := decode(o)
		if err != nil || c.Callbacks["decode"] == "" {
			return v, err
		}
		return v, p.misbehave(context.Background(), c, c.Callbacks["decode"], nil)
	}, opts...)
	i.AddHandler(client.Handler[any]{Error: func(o *client.Object, err error) {
		l := driver.Line{Name: c.Name, What: driver.Warned, Message: err.Error()}
		if o != nil {
			l.What, l.Key = driver.Invalid, o.Key
		}
		p.print(l)
		_ = p.misbehave(context.Background(), c, c.Callbacks["invalid"], nil)
	}})
	ended := make(chan struct{})
	var once sync.Once
	start := func() {
		once.Do(func() {
			go func() {
				defer close(ended)
				p.ended(c, i.Run(ctx))
			}()
		})
	}
	f := &follower{start: start, sync: i.WaitForSync, close: func() { cancel(); start(); <-ended }}
	f.state = func() driver.Line {
		l := driver.Line{Objects: map[string]driver.Object{}, Stale: i.Lister().Stale()}
		for item := range i.Lister().List("") {
			o := show(item.Object)
			o.Invalid = item.Invalid != nil
			l.Objects[item.Object.Key] = *o
		}
		return l
	}
	f.add = func(h driver.Command) {
		failures := map[string]int{}
		take := func(kind string, item client.Item[any]) error {
			p.print(driver.Line{Name: c.Name, What: driver.Called, Handler: h.Handler, Type: kind, Key: item.Object.Key})
			if h.Does == driver.Throw {
				if failures[item.Object.Key]++; h.Times > 0 && failures[item.Object.Key] > h.Times {
					return nil
				}
			}
			return p.misbehave(ctx, c, h.Does, func() {
				if h.Does == driver.CloseClient {
					conn.Close()
					return
				}
				cancel()
			})
		}
		i.AddHandler(client.Handler[any]{
			Add:    func(item client.Item[any]) error { return take("added", item) },
			Update: func(_, item client.Item[any]) error { return take("modified", item) },
			Delete: func(item client.Item[any]) error { return take("deleted", item) },
		})
	}
	p.follow(c.Name, f)
	if c.Handler != "" {
		f.add(c)
	}
	if !c.Stopped {
		start()
	}
	return nil
}

// misbehave does what a handler or callback is told to do. The context of Run is the signal for handlers.
func (p *program) misbehave(ctx context.Context, c driver.Command, does string, closes func()) error {
	switch does {
	case driver.Throw:
		return errors.New("told to fail")
	case driver.Exit:
		runtime.Goexit()
	case driver.Cancel:
		return context.Canceled
	case driver.Hang:
		<-ctx.Done()
		p.print(driver.Line{Name: c.Name, What: driver.Signalled})
		select {}
	case driver.CloseItself, driver.CloseClient:
		if closes != nil {
			closes()
		}
	}
	return nil
}
