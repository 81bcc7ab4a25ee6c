package validation

import (
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/reload"
)

// Live is the set in force, while its file may change. A nil Live has none.
type Live struct {
	set     atomic.Pointer[Set]
	problem func() string
	refused atomic.Int64
}

// Load reads a validation file, and makes files follow it and the schemas that it names.
func Load(path string, files *reload.Files) (*Live, error) {
	l := &Live{}
	names := func(content []byte) []string { return SchemaFiles(path, content) }
	var err error
	l.problem, err = files.LoadWith(path, names, func(contents [][]byte) error {
		set, err := Parse(path, contents)
		if err == nil {
			l.set.Store(set)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Fixed returns a Live whose set never changes.
func Fixed(s *Set) *Live {
	l := &Live{problem: func() string { return "" }}
	l.set.Store(s)
	return l
}

// Set returns the set in force, or nil.
func (l *Live) Set() *Set {
	if l == nil {
		return nil
	}
	return l.set.Load()
}

// Problem returns why the present content of the file is not in force; empty: it is.
func (l *Live) Problem() string { return l.problem() }

// CountRefused counts a write that was refused.
func (l *Live) CountRefused() { l.refused.Add(1) }

// Refused returns the number of writes that were refused.
func (l *Live) Refused() int64 { return l.refused.Load() }
