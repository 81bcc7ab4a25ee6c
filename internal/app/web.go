package app

import (
	"fmt"
	"net/http"

	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/admin"
	"github.com/fanoutd/fanoutd/internal/server"
)

// web returns the HTTP and JSON service, or nil if it is disabled. It makes its requests over local.
func (a *App) web(srv *server.Server, local *server.Local, metrics http.Handler) (*admin.Server, error) {
	if a.admin == nil {
		return nil, nil
	}
	s, err := admin.New(admin.Config{
		Conn: local, Hosts: a.cfg.AdminHosts, Origins: a.cfg.HTTPOrigins, Servers: a.cfg.StatusPageServers, MaxValueBytes: int64(a.cfg.MaxValueSize), Metrics: metrics, Unready: a.unready(srv), Profiles: a.cfg.ServesProfiles(), Channelz: a.cfg.Channelz,
		Operator: srv.Operator(policy.Admin), Scraper: srv.Operator(policy.Metrics), Receive: srv.Receive, Rights: srv.Rights, LimitStreams: srv.LimitStreams, HandshakeFailed: srv.HandshakeFailed,
		TLS: a.security.tls("h2", "http/1.1"), Log: a.log,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot create the HTTP server: %w", err)
	}
	return s, nil
}

// unready returns why the server does not accept requests.
func (a *App) unready(srv *server.Server) func() string {
	return func() string {
		if a.store.Unreachable() {
			return "etcd cannot be reached"
		}
		return srv.Unready()
	}
}
