package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Store is an etcd, outside of this process or inside.
type Store struct {
	client   *clientv3.Client
	log      *slog.Logger
	epochs   *epochs
	versions *versions // nil: an embedded server

	// newWatcher returns a watcher with no gRPC stream yet, see Collection.watch.
	newWatcher func() clientv3.Watcher

	calls    calls
	database func() Database // of an embedded server; nil: an external one

	guarding  sync.WaitGroup     // the goroutine that guards an external server
	stopGuard context.CancelFunc // ends it; nil for an embedded server
	stop      func() error       // stops an embedded server; nil for an external one
}

// Collection returns the part of the store below an etcd prefix, which ends in a
// slash. The name is for logs.
func (s *Store) Collection(name, prefix string) *Collection {
	return s.Encrypted(name, prefix, plain{})
}

// Encrypted returns the part of the store below an etcd prefix, with values that are
// turned into what is stored, and back, by a cipher.
func (s *Store) Encrypted(name, prefix string, cipher Cipher) *Collection {
	return &Collection{
		store:  s,
		prefix: prefix,
		end:    clientv3.GetPrefixRangeEnd(prefix),
		cipher: cipher,
		log:    s.log.With("resource", name),
	}
}

// Close ends the connection, and stops the server if it is an embedded one. Streams
// end before.
func (s *Store) Close() error {
	if s.stopGuard != nil {
		s.stopGuard()
		s.guarding.Wait()
	}
	var errs []error
	if err := s.client.Close(); err != nil && !errors.Is(err, errClientClosed) {
		errs = append(errs, fmt.Errorf("close the etcd client: %w", err))
	}
	if s.stop != nil {
		errs = append(errs, s.stop())
	}
	return errors.Join(errs...)
}
