package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/metrics"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/systemd"
	"github.com/fanoutd/fanoutd/internal/version"
)

// Run serves until ctx is done or serving fails. If ctx is done, it drains the watches first.
// Then it stops everything in the reverse order: requests and streams, dispatchers, cachers,
// store.
func (a *App) Run(ctx context.Context) error {
	registry := metrics.New(a.log)
	observers := registry.Observers()
	if a.tracing != nil {
		observers.Stats = a.tracing.Requests()
	}
	srv := server.New(server.Config{
		Resources:      a.resources,
		Writes:         a.cfg.Writes,
		MaxValueBytes:  int(a.cfg.MaxValueSize),
		MaxOperations:  a.cfg.MaxTransactionOperations,
		MaxTTL:         time.Duration(a.cfg.MaxTTL),
		TLS:            a.security.tls("h2"),
		Authenticator:  a.security.authenticator,
		Policy:         a.security.policy.Load(),
		WatchTimeLimit: time.Duration(a.cfg.WatchTimeLimit),
		Limits:         limits(a.cfg, a.connections),
		Audit:          a.audit,
		Space:          a.store,
		Etcd:           a.store,
		DrainDelay:     time.Duration(a.cfg.DrainDelay),
		DrainPeriod:    time.Duration(a.cfg.DrainPeriod),
		SlowRequest:    time.Duration(a.cfg.SlowRequest),
		Observers:      observers,
		Log:            a.log,
	})
	registry.Register(srv, a.resources, a.store, a.audit, a.security.certificates.Leaf)
	if a.others != nil {
		registry.RegisterCluster(a.others.state)
	}
	local, err := srv.Local()
	if err != nil {
		srv.Stop(ctx)
		return errors.Join(err, a.close(ctx))
	}
	web, err := a.web(srv, local, registry.Handler())
	if err != nil {
		srv.Stop(ctx)
		return errors.Join(err, local.Close(), a.close(ctx))
	}
	if web != nil {
		srv.OnDrain(web.Drain)
	}
	var dispatchers, cachers, files, serving sync.WaitGroup
	background := context.WithoutCancel(ctx)
	cacherCtx, stopCachers := context.WithCancel(background)
	dispatchCtx, stopDispatchers := context.WithCancel(background)
	for _, r := range a.resources {
		if r.History != nil && a.cfg.Writes {
			cachers.Go(func() { r.History.Pruner.Run(cacherCtx) })
		}
		if r.Direct != nil {
			cachers.Go(func() { r.Direct.Run(cacherCtx) })
			continue
		}
		cachers.Go(func() { r.Cacher.Run(cacherCtx) })
		dispatchers.Go(func() { r.Dispatcher.Run(dispatchCtx) })
	}
	files.Go(func() { a.files.Run(cacherCtx, func() {}) })
	files.Go(func() { a.rights.Run(cacherCtx, func() { srv.UsePolicy(a.security.policy.Load()) }) })
	if jwts := a.security.jwts; jwts != nil {
		files.Go(func() { jwts.Run(cacherCtx, srv.Reexamine) })
	}
	if a.others != nil {
		files.Go(func() { a.others.run(cacherCtx, a.store) })
	}
	failed := make(chan error, 2)
	serving.Go(func() { failed <- srv.Serve(a.listener) })
	if web != nil {
		serving.Go(func() { failed <- web.Serve(srv.LimitedForOperators(a.admin)) })
		a.log.Info("serving HTTP", "address", a.AdminAddr().String())
	}
	a.log.Info("serving", "address", a.Addr().String(), "resources", len(a.resources), "version", version.Get().Version)
	reporting, stopReporting := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() {
		systemd.Notify(reporting, systemd.Service{Unready: a.unready(srv), Alive: local.Alive, Log: a.log})
	})
	defer reports.Wait()
	defer stopReporting()

	select {
	case <-ctx.Done():
		a.log.Info("stopping", "drain_delay", time.Duration(a.cfg.DrainDelay), "drain_period", time.Duration(a.cfg.DrainPeriod),
			"grace", time.Duration(a.cfg.ShutdownGrace))
		a.store.HandOver()
		srv.Drain(background)
	case err = <-failed:
	case err = <-a.store.Failed():
		err = errors.Join(err, a.abandon(srv))
		stopDispatchers()
		stopCachers()
		return err
	}
	grace, cancel := context.WithTimeout(background, time.Duration(a.cfg.ShutdownGrace))
	defer cancel()
	// A stream over HTTP ends with the gRPC stream behind it.
	srv.Stop(grace)
	if web != nil {
		web.Stop(grace)
	}
	err = errors.Join(err, local.Close())
	serving.Wait()
	stopDispatchers()
	dispatchers.Wait()
	stopCachers()
	cachers.Wait()
	files.Wait()
	err = errors.Join(err, a.close(grace))
	a.log.Info("stopped")
	return err
}

// CheckFiles looks now whether the files that are reloaded have changed: certificates, tokens,
// keys and policies. It returns when the new contents are in use or the log contains why not, or
// when ctx is done. It waits for Run.
func (a *App) CheckFiles(ctx context.Context) {
	a.files.Check(ctx)
	a.rights.Check(ctx)
}

// abandon ends the watches after the store has failed, so that clients go to other servers.
// It waits for nothing else: what uses the store may never end.
func (a *App) abandon(srv *server.Server) error {
	grace, cancel := context.WithTimeout(context.Background(), time.Duration(a.cfg.ShutdownGrace))
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		srv.Stop(grace)
	}()
	select {
	case <-stopped:
	case <-grace.Done():
	}
	if a.audit == nil {
		return nil
	}
	return a.audit.Close()
}

// limits returns the configured limits of clients, with these of connections.
func limits(cfg config.Config, connections connectionLimits) quota.Limits {
	return quota.Limits{
		Watchers:             cfg.MaxWatchers,
		WatchersPerClient:    cfg.MaxWatchersPerClient,
		Waits:                cfg.MaxWaits,
		WaitsPerClient:       cfg.MaxWaitsPerClient,
		Selectors:            cfg.MaxSelectors,
		SelectorsPerClient:   cfg.MaxSelectorsPerClient,
		Snapshots:            cfg.MaxSnapshots,
		WaitingSnapshots:     cfg.MaxWaitingSnapshots,
		ListBytes:            int64(cfg.MaxListMemory),
		RequestBytes:         int(cfg.MaxRequestSize),
		RequestMemory:        int64(cfg.MaxRequestMemory),
		StreamsPerConnection: cfg.MaxStreamsPerConnection,
		Connections:          connections.total,
		ConnectionsPerClient: connections.perClient,
		OperatorConnections:  connections.operators,
		ConnectionRate:       cfg.MaxConnectionRate,
		ConnectionBurst:      cfg.MaxConnectionBurst,
		ResetRate:            cfg.MaxResetRate,
		ResetRatePerClient:   cfg.MaxResetRatePerClient,
		RequestRate:          cfg.MaxRequestRate,
		RequestBurst:         cfg.MaxRequestBurst,
		ReportRate:           cfg.MaxReportRate,
	}
}
