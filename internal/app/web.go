package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/fanoutd/fanoutd/internal/admin"
	"github.com/fanoutd/fanoutd/internal/server"
)

// web is the HTTP and JSON service.
type web struct {
	*admin.Server
	conn io.Closer // to the server
}

// web returns the HTTP service, or nil if it is disabled.
func (a *App) web(srv *server.Server, metrics http.Handler) (*web, error) {
	if a.admin == nil {
		return nil, nil
	}
	conn, err := srv.Local()
	if err != nil {
		return nil, err
	}
	s, err := admin.New(admin.Config{
		Conn: conn, Hosts: a.cfg.AdminHosts, Origins: a.cfg.HTTPOrigins, MaxValueBytes: int64(a.cfg.MaxValueSize), Metrics: metrics, Unready: a.unready(srv), Profiles: a.cfg.ServesProfiles(), Channelz: a.cfg.Channelz,
		Operator: srv.Operator, Receive: srv.Receive, Rights: srv.Rights, LimitStreams: srv.LimitStreams,
		TLS: a.security.tls("h2", "http/1.1"), Log: a.log,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create the HTTP server: %w", err), conn.Close())
	}
	return &web{s, conn}, nil
}

// unready says why the server does not accept requests.
func (a *App) unready(srv *server.Server) func() string {
	return func() string {
		if a.store.Unreachable() {
			return "etcd cannot be reached"
		}
		return srv.Unready()
	}
}

// Stop waits for running requests until ctx is done.
func (w *web) Stop(ctx context.Context) error {
	w.Server.Stop(ctx)
	if err := w.conn.Close(); err != nil {
		return fmt.Errorf("cannot close the connection of the HTTP server: %w", err)
	}
	return nil
}
