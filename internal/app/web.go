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

// web is HTTP and JSON in front of a server.
type web struct {
	*admin.Server
	conn io.Closer // to the server
}

// web returns what serves HTTP, or nil where that is not wanted.
func (a *App) web(srv *server.Server, metrics http.Handler) (*web, error) {
	if a.admin == nil {
		return nil, nil
	}
	conn, err := srv.Local()
	if err != nil {
		return nil, err
	}
	s, err := admin.New(admin.Config{
		Conn: conn, Hosts: a.cfg.AdminHosts, Metrics: metrics, Profiles: a.cfg.Pprof,
		Operator: srv.Operator, Receive: srv.Receive,
		TLS: a.security.tls("h2", "http/1.1"), Log: a.log,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the server of HTTP: %w", err), conn.Close())
	}
	return &web{s, conn}, nil
}

// Stop waits for the requests that are under way until ctx is done.
func (w *web) Stop(ctx context.Context) error {
	w.Server.Stop(ctx)
	if err := w.conn.Close(); err != nil {
		return fmt.Errorf("close the connection of HTTP: %w", err)
	}
	return nil
}
