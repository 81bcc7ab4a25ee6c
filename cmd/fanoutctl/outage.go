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

// errLostEtcd is why a watch hears nothing from a server that answers.
var errLostEtcd = errors.New("the server has lost etcd")

// outageTimeout is how long the question may take why a server is silent.
const outageTimeout = 2 * time.Second

// whySilent returns the reason for the silence of a watch: errLostEtcd if the server says so, else failure.
func (t *tool) whySilent(ctx context.Context, resource string, failure error) error {
	if e, ok := errors.AsType[*client.Error](failure); ok && e.Reason == client.ErrStoreUnavailable {
		return errLostEtcd
	} else if ok || t.client == nil {
		return failure // the server, or the lack of one, has given the reason
	}
	ctx, cancel := context.WithTimeout(ctx, outageTimeout)
	defer cancel()
	if admin.HasLostEtcd(ctx, t.client, resource) {
		return errLostEtcd
	}
	return failure
}

// lostEtcd describes an outage of etcd.
func lostEtcd(server string) string { return server + " has lost etcd" }

// staleHint is the end of a message for a read that needs etcd, or "".
func (t *tool) staleHint() string {
	if !t.readsStale {
		return ""
	}
	return "; use --allow-stale to read what the server has in memory"
}

// outcomeHint is the end of a message for a command that only writes, or "".
func (t *tool) outcomeHint() string {
	switch strings.TrimPrefix(t.ran, "fanoutctl ") {
	case "put", "delete", "txn", "copy", "rollback":
		return "; the write may or may not have been applied"
	}
	return ""
}

// reportInterruptions returns a callback for a watch that reports why it gets nothing, at most once per minute.
// It does not report a server that is draining.
func (t *tool) reportInterruptions(ctx context.Context, resource string) func(error) {
	var last time.Time
	return func(err error) {
		t.interruption = t.whySilent(ctx, resource, err)
		if errors.Is(err, client.ErrDraining) || time.Since(last) < time.Minute {
			return
		}
		last = time.Now()
		fmt.Fprintf(t.stderr, "fanoutctl: %s; retrying\n", t.explain(exitUnavailable, t.interruption))
	}
}

// timedOut returns the error of a watch whose time was up, with the reason if its server is away.
func (t *tool) timedOut(format string, args ...any) error {
	text := "timed out" + fmt.Sprintf(format, args...)
	if t.interruption == nil {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %s", text, t.explain(exitUnavailable, t.interruption))
}
