package dispatch_test

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// reader is what a subscriber needs of a watcher.
type reader interface {
	Next(ctx context.Context) (dispatch.Message, error)
	Position() object.Position
	Close()
}

// poller serves a watcher as the server does: a worker polls it when it was woken, and
// only then, until what is to be said is elsewhere; then a handler tries until there is
// nothing, and the worker is at it again.
type poller struct {
	*dispatch.Watcher
	woken  chan struct{}
	worker bool
	counts counts
}

// counts says how often something happened.
type counts map[string]int

// What can happen to a poller.
const (
	told        = "told, and settled"
	toldAndMore = "told, and there is more"
	nothing     = "woken for nothing"
	elsewhere   = "what is to be told is elsewhere"
	woken       = "woken after it had waited"
)

func poll(d *dispatch.Dispatcher, i dispatch.Interest, b dispatch.Begin, o dispatch.Options, c counts) *poller {
	p := &poller{woken: make(chan struct{}, 1), counts: c}
	o.Wake = p.wake
	p.Watcher = d.Watch(i, b, o)
	return p
}

func (p *poller) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// Next waits for the next message, as [dispatch.Watcher.Next] does.
func (p *poller) Next(ctx context.Context) (dispatch.Message, error) {
	for {
		if !p.worker {
			if m, ok, err := p.Try(); ok || err != nil {
				return m, err
			}
			p.worker = true
			p.wake()
		}
		if err := p.wait(ctx); err != nil {
			return dispatch.Message{}, err
		}
		t, ok := p.ask()
		if ok {
			return t.Message, nil
		}
	}
}

// ask is what the worker does when it was woken.
func (p *poller) ask() (*dispatch.Telling, bool) {
	t, outcome := p.Poll(time.Now())
	switch outcome {
	case dispatch.Nothing:
		p.counts[nothing]++
		return nil, false
	case dispatch.Elsewhere:
		p.counts[elsewhere]++
		p.worker = false
		return nil, false
	}
	if p.Settle(time.Now()) {
		p.counts[told]++
	} else {
		p.counts[toldAndMore]++
		p.wake()
	}
	return t, true
}

// wait returns when the watcher was woken.
func (p *poller) wait(ctx context.Context) error {
	select {
	case <-p.woken:
		return nil
	default:
	}
	select {
	case <-p.woken:
		p.counts[woken]++
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.Stopped():
		return dispatch.ErrStopped
	}
}
