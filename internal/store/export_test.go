package store

import "context"

// StopGuard ends the goroutine that looks at the epoch by itself.
func (s *Store) StopGuard() {
	s.stopGuard()
	s.guarding.Wait()
}

// AssumeVersion makes the store believe that etcd has this version.
func (s *Store) AssumeVersion(version string) {
	s.versions = &versions{log: s.log, ask: func(context.Context) []string { return []string{version} }}
}
