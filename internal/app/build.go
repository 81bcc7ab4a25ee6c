package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// App is a server that has been built and is ready to run.
type App struct {
	cfg       Config
	log       *slog.Logger
	listener  net.Listener
	store     *store.Store
	resources []server.Resource
	server    *server.Server
}

// Build makes everything that the configuration asks for: it opens the socket,
// then the store. What was built is taken down again if the rest fails.
func Build(ctx context.Context, cfg Config, log *slog.Logger) (_ *App, err error) {
	a := &App{cfg: cfg, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	// The socket first: an address that is in use should not cost the start of a
	// database.
	if a.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if a.store, err = openStore(ctx, cfg, log); err != nil {
		return nil, err
	}
	for _, rc := range cfg.Resources {
		r, err := a.resource(rc)
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", rc.Name, err)
		}
		a.resources = append(a.resources, r)
	}
	return a, nil
}

func openStore(ctx context.Context, cfg Config, log *slog.Logger) (*store.Store, error) {
	if len(cfg.Etcd.Endpoints) == 0 {
		return store.OpenEmbedded(ctx, store.EmbeddedConfig{
			Dir:                 cfg.Embedded.DataDir,
			ListenClient:        cfg.Embedded.Listen,
			QuotaBytes:          int64(cfg.Embedded.QuotaBytes),
			CompactionRetention: cfg.Embedded.CompactionRetention,
			MaxTransactionOps:   cfg.MaxTransactionOperations,
		}, log)
	}
	return store.Dial(ctx, store.ExternalConfig{
		Endpoints:   cfg.Etcd.Endpoints,
		DialTimeout: cfg.Etcd.DialTimeout,
		CAFile:      cfg.Etcd.CAFile,
		CertFile:    cfg.Etcd.CertFile,
		KeyFile:     cfg.Etcd.KeyFile,
		ServerName:  cfg.Etcd.ServerName,
		Username:    cfg.Etcd.Username,
		Password:    cfg.Etcd.Password,
	}, log)
}

func (a *App) resource(rc ResourceConfig) (server.Resource, error) {
	codec, err := object.CodecByName(rc.Codec)
	if err != nil {
		return server.Resource{}, err
	}
	collection := a.store.Collection(rc.Name, rc.Prefix)
	c := cacher.New(cacher.Config{
		Resource: rc.Name,
		Store:    collection,
		Codec:    codec,
		Seal:     wire.Seal,
		Window:   cacher.WindowLimits{MaxChanges: rc.Window.MaxEvents, MaxBytes: int(rc.Window.MaxBytes)},
		Log:      a.log,
	})
	return server.Resource{
		Name:       rc.Name,
		Codec:      codec,
		Cacher:     c,
		Dispatcher: dispatch.New(dispatch.Config{Source: c, Encoder: wire.Encoder{}}),
		Writer:     collection,
	}, nil
}

// Addr returns the address that the server listens on.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// close takes down what Build made and Run has not.
func (a *App) close() error {
	var errs []error
	if a.listener != nil {
		if err := a.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("close the listener: %w", err))
		}
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(errs...)
}
