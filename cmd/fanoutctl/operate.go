package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// servers returns the administration of each server: each knows its own watches only.
func (t *tool) servers(ctx context.Context) ([]*admin.Admin, error) {
	opts, err := t.options()
	if err != nil {
		return nil, err
	}
	within, cancel := t.within(ctx, usual) // DNS may be asked
	defer cancel()
	servers, err := client.EachServer(within, t.settings.Server, opts...)
	if err != nil {
		return nil, usageError{err}
	}
	var all []*admin.Admin
	for _, s := range servers {
		t.connections = append(t.connections, s.Client)
		all = append(all, admin.New(s.Address, s.Client))
	}
	return all, nil
}

// impatient is how long one of several servers may take to answer.
const impatient = 10 * time.Second

// serverError is what one of several servers has answered.
type serverError struct {
	server string
	error
}

func (e serverError) Unwrap() error { return e.error }

// ask asks all servers at once. Those of several that failed, because they do not answer
// or because they refuse, are reported, and the error says how many they are. If all
// failed, no answers are returned.
func ask[T any](ctx context.Context, t *tool, servers []*admin.Admin, what func(context.Context, *admin.Admin) (T, error)) ([]admin.Answer[T], error) {
	usually := usual
	if len(servers) > 1 {
		usually = impatient
	}
	within, cancel := t.within(ctx, usually)
	defer cancel()
	answers := admin.Each(within, servers, what)
	var failed error
	failures := 0
	for _, a := range answers {
		if a.Err == nil {
			continue
		}
		if failures++; failures == 1 {
			failed = a.Err
		}
		if len(servers) > 1 && context.Cause(ctx) == nil {
			fmt.Fprintf(t.stderr, "fanoutctl: %s\n", t.explainServer(ctx, a.Server, a.Err))
		}
	}
	switch {
	case failures == 0:
		return answers, nil
	case len(servers) == 1 || context.Cause(ctx) != nil:
		return nil, failed
	case failures == len(servers):
		return nil, exitError{code: exitCode(ctx, failed)}
	}
	return answers, exitError{exitPartial, fmt.Errorf("%d of %d servers failed", failures, len(servers))}
}

// explainServer says on one line which server failed, and why.
func (t *tool) explainServer(ctx context.Context, server string, err error) string {
	err = serverError{server, err}
	text := t.explain(exitCode(ctx, err), err)
	if strings.Contains(text, server) {
		return text
	}
	return server + ": " + text
}

// end ends a watch at the server that has it.
func (t *tool) end(ctx context.Context, id string) error {
	servers, err := t.servers(ctx)
	if err != nil {
		return err
	}
	answers, err := ask(ctx, t, servers, func(ctx context.Context, a *admin.Admin) (bool, error) { return a.End(ctx, id) })
	for _, a := range answers {
		if a.Value {
			return nil // whoever failed has not had it
		}
	}
	switch partial, ok := errors.AsType[exitError](err); {
	case ok && partial.code == exitPartial:
		return exitError{exitPartial, fmt.Errorf("%w; the watcher %q %w at the others", err, id, errNotThere)}
	case err != nil:
		return err
	}
	return fmt.Errorf("the watcher %q %w at %s; \"fanoutctl watchers\" shows those there are, --server chooses another server", id, errNotThere, t.settings.Server)
}
