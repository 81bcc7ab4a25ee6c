package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/admin"
	"github.com/fanoutd/fanoutd/internal/cluster"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/systemd"
)

// openStore opens the store. As long as the etcd of this server waits for others, it answers clients.
func (a *App) openStore(ctx context.Context) (err error) {
	if a.cfg.Cluster == nil {
		a.store, err = openStore(ctx, a.cfg, beginning{}, a.log)
		return err
	}
	w, err := a.wait(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(adviseReplacement(a.cfg, err), w.stop()) }()
	begin, err := beginEtcd(ctx, a.cfg, w.set, a.log)
	if err != nil {
		return err
	}
	a.others = &observer{look: begin.look, log: a.log}
	w.set(cluster.Awaited{})
	defer a.others.showAwaited(ctx, w.set)()
	a.store, err = openStore(ctx, a.cfg, begin, a.log)
	return err
}

// waiting answers on the listeners of a server whose etcd waits for other servers: the process is alive and not
// ready, and requests fail with the names of those for which it waits. Afterwards, the listeners are
// free for the server itself. Connections that come in between wait in their queue.
type waiting struct {
	cfg     config.Config
	log     *slog.Logger
	servers *server.Waiting
	web     *admin.Server // nil: HTTP is disabled
	lent    []*lentListener
	now     atomic.Pointer[cluster.Awaited]

	serving     sync.WaitGroup
	stopReports context.CancelFunc
}

// wait begins to answer until stop is called.
func (a *App) wait(ctx context.Context) (*waiting, error) {
	w := &waiting{cfg: a.cfg, log: a.log}
	w.now.Store(&cluster.Awaited{})
	names := make([]string, len(a.cfg.Resources))
	for i, r := range a.cfg.Resources {
		names[i] = r.Name
	}
	var err error
	w.servers, err = server.NewWaiting(server.WaitingConfig{
		TLS: a.security.tls("h2"), Limits: limits(a.cfg, a.connections), Resources: names, For: w.servedText, Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	if a.admin != nil {
		if w.web, err = w.openWeb(a.security.tls("h2", "http/1.1")); err != nil {
			w.servers.Stop()
			return nil, err
		}
		on := w.servers.LimitedForOperators(w.lend(a.admin))
		w.serve("HTTP", func() error { return w.web.Serve(on) })
	}
	on := w.lend(a.listener)
	w.serve("gRPC", func() error { return w.servers.Serve(on) })
	reporting, stopReports := context.WithCancel(ctx)
	w.stopReports = stopReports
	w.serving.Go(func() { systemd.Wait(reporting, w.text, a.log) })
	return w, nil
}

// serve calls a function that serves until stop.
func (w *waiting) serve(what string, serve func() error) {
	w.serving.Go(func() {
		if err := serve(); err != nil {
			w.log.Error("cannot answer while the server waits", "for", what, "error", err)
		}
	})
}

// stop ends all answers. The listeners can be used again.
func (w *waiting) stop() error {
	w.stopReports()
	w.servers.Stop()
	if w.web != nil {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // its requests end with those of gRPC
		w.web.Stop(ended)
	}
	w.serving.Wait()
	var errs []error
	for _, l := range w.lent {
		errs = append(errs, l.takeBack())
	}
	return errors.Join(errs...)
}

// set sets for which servers this one waits.
func (w *waiting) set(now cluster.Awaited) { w.now.Store(&now) }

// text returns for which servers this one waits, and why, for operators.
func (w *waiting) text() string {
	if now := w.now.Load(); now.Reason != "" {
		return "waiting for " + now.Reason
	}
	return "starting"
}

// servedText returns for which servers this one waits, without addresses: anybody may read it.
func (w *waiting) servedText() string {
	if now := w.now.Load(); len(now.Servers) > 0 {
		return strings.Join(now.Servers, ", ")
	}
	return "etcd to start"
}

// openWeb returns the HTTP service. Paths of the API answer as gRPC does.
func (w *waiting) openWeb(secure *tls.Config) (*admin.Server, error) {
	refuse := func(ctx context.Context, _ access.HTTPRequest) error { return w.servers.Refuse(ctx) }
	s, err := admin.New(admin.Config{
		Conn: w.servers.Conn(), Hosts: w.cfg.AdminHosts, Origins: w.cfg.HTTPOrigins, Servers: w.cfg.StatusPageServers, TLS: secure, Log: w.log,
		Unready:  func() string { return "it waits for " + w.servedText() },
		Metrics:  http.NotFoundHandler(), // Scraper refuses
		Operator: refuse, Scraper: refuse,
		Receive: func(ctx context.Context, r access.HTTPRequest, _ int64) (func(), error) {
			return nil, refuse(ctx, r)
		},
		Rights: func(ctx context.Context, r access.HTTPRequest, _, _ string) ([]string, error) {
			return nil, refuse(ctx, r)
		},
		LimitStreams: w.servers.LimitStreams, HandshakeFailed: func(string, error) {},
	})
	if err != nil {
		return nil, fmt.Errorf("create the HTTP server: %w", err)
	}
	return s, nil
}

// lend returns a view of the listener that stop takes back.
func (w *waiting) lend(l net.Listener) net.Listener {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		panic(fmt.Sprintf("a listener for TCP is a %T", l))
	}
	lent := &lentListener{TCPListener: tcp}
	w.lent = append(w.lent, lent)
	return lent
}

// lentListener is a listener that stays open when it is closed. Only Accept ends then.
type lentListener struct {
	*net.TCPListener
	closed atomic.Bool
}

func (l *lentListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err != nil && l.closed.Load() {
		return nil, net.ErrClosed
	}
	return conn, err
}

func (l *lentListener) Close() error {
	l.closed.Store(true)
	return l.SetDeadline(time.Unix(0, 1)) // in the past
}

// takeBack makes the listener accept again. Nothing uses its view any more.
func (l *lentListener) takeBack() error { return l.SetDeadline(time.Time{}) }
