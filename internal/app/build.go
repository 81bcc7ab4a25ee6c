// Package app builds the server from its configuration and runs it.
//
// [Build] opens the listeners, the store, the resources and everything else that can fail.
// [App.Run] starts the goroutines and serves until its context ends. It then drains the
// watches and stops everything in the reverse order.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/fanoutd/fanoutd/internal/admin"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/reload"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/tracing"
	"github.com/fanoutd/fanoutd/internal/validation"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/internal/work"
)

// App is a server that has been built and is ready to run.
type App struct {
	cfg       config.Config
	log       *slog.Logger
	listener  net.Listener
	admin     net.Listener // nil: HTTP is disabled
	security  *security
	store     Store
	others    *observer        // nil: no cluster
	audit     *audit.Log       // nil: disabled
	tracing   *tracing.Tracing // nil: disabled
	resources []backend.Resource
	keys      *crypt.Keyring
	files     *reload.Files // certificates, keys and validation files
	rights    *reload.Files // a change of these may end watches: tokens, keys of JWTs, the policy

	connections  connectionLimits
	catchUpTurns work.Turns // of all resources
}

// Build opens everything that the configuration asks for: the listeners, then the store and
// the rest. If it fails, it closes what it has opened.
func Build(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *App, err error) {
	if cfg.Channelz {
		admin.EnableChannelz()
	}
	openFiles, err := openFilesLimit()
	if err != nil {
		return nil, err
	}
	connections, err := limitConnections(cfg, openFiles, log)
	if err != nil {
		return nil, err
	}
	a := &App{
		cfg: cfg, log: log, files: reload.New(log), rights: reload.New(log), connections: connections, catchUpTurns: work.NewTurns(),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close(ctx))
		}
	}()
	if a.security, err = openSecurity(cfg, a.files, a.rights, log); err != nil {
		return nil, err
	}
	// Listen first, so that an address in use does not cost the start of a database.
	if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("cannot listen (setting listen): %w", err)
	}
	if cfg.AdminListen != "" {
		if a.admin, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.AdminListen); err != nil {
			return nil, fmt.Errorf("cannot listen for HTTP (setting admin-listen): %w", err)
		}
	}
	if err := a.openKeys(); err != nil {
		return nil, err
	}
	if cfg.AuditLog != "" {
		if a.audit, err = audit.Open(audit.Config{
			Path: cfg.AuditLog, MaxBytes: int64(cfg.AuditLogSize), Backups: cfg.AuditLogBackups, Log: log,
		}); err != nil {
			return nil, err
		}
	}
	if err := a.openStore(ctx); err != nil {
		return nil, err
	}
	if cfg.OTLPEndpoint != "" {
		a.tracing, err = tracing.New(ctx, tracing.Config{Endpoint: cfg.OTLPEndpoint, Ratio: cfg.TraceSampleRatio, Log: log})
		if err != nil {
			return nil, err
		}
	}
	for _, rc := range cfg.Resources {
		r, err := a.resource(ctx, rc)
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", rc.Name, err)
		}
		a.resources = append(a.resources, r)
	}
	return a, nil
}

func (a *App) resource(ctx context.Context, rc config.Resource) (backend.Resource, error) {
	schema, err := rc.Schema()
	if err != nil {
		return backend.Resource{}, err
	}
	codec, err := object.NewCodec(rc.Codec, schema)
	if err != nil {
		return backend.Resource{}, err
	}
	values := a.keys.Values(a.cfg.Encrypts(&rc))
	collection := a.store.Collection(rc.Name, rc.Prefix, values)
	records, err := a.history(ctx, rc, collection)
	if err != nil {
		return backend.Resource{}, err
	}
	r := backend.Resource{Name: rc.Name, Fields: schema.Names(), Codec: codec, Store: collection, Values: values, History: records}
	if rc.ValidationFile != "" {
		if r.Validation, err = validation.Load(rc.ValidationFile, a.files); err != nil {
			return backend.Resource{}, fmt.Errorf("validation file: %w", err)
		}
	}
	if !rc.Cache {
		r.Direct = direct.New(direct.Config{
			Resource: rc.Name, Store: collection, Codec: codec, Preencode: wire.Preencode, Encoder: wire.Encoder{}, Keys: a.keys, Log: a.log,
		})
		return r, nil
	}
	r.Cacher = cacher.New(cacher.Config{
		Resource:  rc.Name,
		Store:     collection,
		Codec:     codec,
		Preencode: wire.Preencode,
		Window: cacher.WindowLimits{
			MinChanges: rc.Window.MinEvents,
			MaxChanges: rc.Window.MaxEvents,
			MaxBytes:   int(rc.Window.MaxSize),
			Freshness:  time.Duration(rc.Window.Freshness),
		},
		MaxTombstones: rc.MaxTombstones,
		CheckInterval: time.Duration(a.cfg.SelfCheckInterval),
		Keys:          a.keys,
		Log:           a.log,
	})
	dispatcherConfig := feed.Config{
		Source: r.Cacher, Encoder: wire.Encoder{}, Turns: a.catchUpTurns, Indexed: schema.Indexed(),
		LogBytes: int(rc.Log.MaxSize), LogAge: time.Duration(rc.Log.Freshness),
	}
	if a.tracing != nil {
		tracer := a.tracing.WriteTracer(rc.Name)
		r.Tracer, dispatcherConfig.Observer = tracer, tracer
	}
	r.Dispatcher = dispatch.New(dispatcherConfig)
	return r, nil
}

// Addr returns the address that the server listens on.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// AdminAddr returns the address of the HTTP service, or nil if it is disabled.
func (a *App) AdminAddr() net.Addr {
	if a.admin == nil {
		return nil
	}
	return a.admin.Addr()
}

// traceFlushTimeout limits the time for sending the last traces.
const traceFlushTimeout = 2 * time.Second

// close releases everything that Build opened. Requests of etcd's own clients may finish
// until ctx is done.
func (a *App) close(ctx context.Context) error {
	var errs []error
	for _, l := range []net.Listener{a.listener, a.admin} {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close the listener: %w", err))
		}
	}
	if a.tracing != nil {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceFlushTimeout)
		defer cancel()
		if err := a.tracing.Close(closeCtx); err != nil {
			a.log.Warn("cannot send the last traces", "error", err) // not a failure of the server
		}
	}
	if a.audit != nil {
		errs = append(errs, a.audit.Close())
	}
	if a.store != nil {
		errs = append(errs, a.store.Close(ctx))
	}
	return errors.Join(errs...)
}
