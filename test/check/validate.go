package check

import (
	"errors"
	"fmt"
)

// Guarantee is a promise that a Watch makes, and the function that judges it.
type Guarantee struct {
	Name  string
	Check func(*History, *Truth) error
}

// Guarantees are all the promises, in the order in which they are worth reading:
// a stream that breaks an early one often breaks later ones as a consequence.
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

// Validate judges a history by every guarantee. It returns nil or an error that
// names each broken one and the first place where it is broken.
func Validate(h *History, t *Truth) error {
	if err := h.possible(t); err != nil {
		return fmt.Errorf("cannot judge: %w", err)
	}
	var broken []error
	for _, g := range Guarantees {
		if err := g.Check(h, t); err != nil {
			broken = append(broken, err)
		}
	}
	return errors.Join(broken...)
}

// verdict collects the ways in which one guarantee is broken. It keeps the first,
// which is where to look, and counts the others.
type verdict struct {
	history   *History
	guarantee string
	first     string
	more      int
}

func (v *verdict) broken(at place, format string, args ...any) {
	if v.first != "" {
		v.more++
		return
	}
	v.first = fmt.Sprintf("%v: %s", at, fmt.Sprintf(format, args...))
}

func (v *verdict) err() error {
	switch {
	case v.first == "":
		return nil
	case v.more == 0:
		return fmt.Errorf("%s broke %s: %s", v.history.Watcher, v.guarantee, v.first)
	}
	return fmt.Errorf("%s broke %s: %s (and %d times more)", v.history.Watcher, v.guarantee, v.first, v.more)
}
