package check

import (
	"errors"
	"fmt"
)

// Guarantee is a guarantee of a Watch and the function that checks it.
type Guarantee struct {
	Name  string
	Check func(*History, *Truth) error
}

// Guarantees lists all guarantees. A stream that breaks one often breaks later ones as a
// consequence, so read the errors from the first.
var Guarantees = []Guarantee{
	{"protocol", Protocol},
	{"ordered", Ordered},
	{"unique", Unique},
	{"reliable", Reliable},
	{"atomic", Atomic},
	{"resumable", Resumable},
	{"bookmarkable", Bookmarkable},
	{"snapshot", Snapshot},
	{"filtered", Filtered},
	{"isolated", Isolated},
	{"bounded", Bounded},
	{"honest", Honest},
}

// Validate checks a history against every guarantee. It returns nil or an error that names
// each broken guarantee and the first place of each fault.
func Validate(h *History, t *Truth) error {
	if err := h.possible(t); err != nil {
		return fmt.Errorf("cannot check: %w", err)
	}
	var broken []error
	for _, g := range Guarantees {
		if err := g.Check(h, t); err != nil {
			broken = append(broken, err)
		}
	}
	return errors.Join(broken...)
}

// violations collects the faults against one guarantee. It keeps the first, which is the
// place to look at, and counts the others.
type violations struct {
	history   *History
	guarantee string
	first     string
	more      int
}

func (v *violations) add(at fmt.Stringer, format string, args ...any) {
	if v.first != "" {
		v.more++
		return
	}
	v.first = fmt.Sprintf("%v: %s", at, fmt.Sprintf(format, args...))
}

func (v *violations) err() error {
	switch {
	case v.first == "":
		return nil
	case v.more == 0:
		return fmt.Errorf("%s broke %s: %s", v.history.Watcher, v.guarantee, v.first)
	}
	return fmt.Errorf("%s broke %s: %s (and %d more times)", v.history.Watcher, v.guarantee, v.first, v.more)
}
