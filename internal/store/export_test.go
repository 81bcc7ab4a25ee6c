package store

// StopGuard ends the goroutine that looks at the epoch by itself.
func (s *Store) StopGuard() {
	s.stopGuard()
	s.guarding.Wait()
}
